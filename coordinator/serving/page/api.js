// The requests of this page to the server. Every failure is thrown as an ApiError with the server's message.
import { eventsOf } from "./sse.js";

export class ApiError extends Error {
  constructor(message, { status = 0, code = null, param = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

function headersFor(key, type) {
  const headers = type ? { "Content-Type": type } : {};
  if (key) headers.Authorization = `Bearer ${key}`;
  return headers;
}

function errorOf(body, status) {
  let error = {};
  try {
    error = JSON.parse(body).error ?? {};
  } catch {
    error = { message: body.slice(0, 500) };
  }
  return new ApiError(error.message || `The server answered with status ${status}`, { status, code: error.code, param: error.param });
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new ApiError("The server cannot be reached. Is it still running?");
  }
  if (!response.ok) throw errorOf(await response.text(), response.status);
  return response;
}

export async function fetchText(path, key) {
  return (await ask(path, { headers: headersFor(key) })).text();
}

export async function fetchJson(path, key) {
  return JSON.parse(await fetchText(path, key));
}

/** Returns {status, detail} of the server; the status is "unreachable" if it does not answer. */
export async function fetchHealth() {
  try {
    return await (await fetch("/health")).json();
  } catch {
    return { status: "unreachable", detail: "the server cannot be reached" };
  }
}

/** Returns the chunks of a streamed answer. Throws ApiError, or AbortError after `signal` was aborted. */
export async function* streamChat(request, { key, signal }) {
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  const response = await ask("/v1/chat/completions", { method: "POST", headers: headersFor(key, "application/json"), body, signal });
  try {
    for await (const data of eventsOf(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw errorOf(data, chunk.error.status ?? 0);
      yield chunk;
    }
  } catch (failure) {
    if (failure instanceof ApiError || failure.name === "AbortError") throw failure;
    throw new ApiError(`The connection to the server broke off: ${failure.message}`);
  }
  throw new ApiError("The connection ended before the answer was complete. Ask again.");
}
