// The line below the message field: what the machine does now. A click on it opens the live view.
//
// The numbers come from /health and /server_info, which behind a router are those of all coordinators together. Only a
// server that is not ready is asked for /metrics as well, to count the workers that are connected.
import { perSecond } from "./answer.js";
import { fetchJson, fetchText } from "./api.js";
import { byId, h } from "./dom.js";
import { Sample } from "./metrics.js";

const NOT_READY = {
  starting: "The server is starting",
  draining: "The server is shutting down",
  stuck: "The server does not make progress",
  unreachable: "The server cannot be reached. Is it still running?",
};

const sum = (states, name) => states.reduce((total, state) => total + (state[name] ?? 0), 0);
const connected = ({ up, all }) => `${up} of ${all} worker${all === 1 ? "" : "s"} connected`;

/**
 * Returns the parts of the line. `info` is an answer of /server_info, `workers` is {up, all}, `rate` is the tokens per second
 * of the answer that is being written; each is null where it is not known.
 */
export function machineTexts({ health, info, workers, rate }) {
  const { status, detail, backends } = health;
  const texts = [];
  if (NOT_READY[status]) texts.push(detail && status !== "unreachable" ? `${NOT_READY[status]}: ${detail}` : NOT_READY[status]);
  if (rate) texts.push(`this answer: ${perSecond(rate)}`);
  if (info?.internal_states) {
    const states = info.internal_states;
    const running = sum(states, "running");
    texts.push(`${running} request${running === 1 ? "" : "s"} running, ${sum(states, "waiting")} waiting`);
    const blocks = sum(states, "kv_blocks_total");
    if (blocks > 0) texts.push(`KV cache ${Math.round((sum(states, "kv_blocks_used") / blocks) * 100)} % in use`);
  }
  if (backends) texts.push(`${backends.filter(({ ready }) => ready).length} of ${backends.length} coordinators ready`);
  else if (workers?.all > 0) texts.push(connected(workers));
  return texts;
}

async function countWorkers(health, info, key) {
  const all = info.workers?.length ?? 0;
  if (health.status === "ready") return { up: all, all };
  const sample = new Sample(await fetchText("/metrics", key), 0);
  return { up: sample.value("numoe_worker_up"), all: sample.labelValues("numoe_worker_up", "worker").length };
}

/** Asks the server and returns {health, info, workers}. `known`: the server has accepted this key. */
export async function readMachine({ health, known, key }) {
  const machine = { health, info: null, workers: null };
  if (!known || health.status === "unreachable" || health.status === "starting") return machine;
  try {
    machine.info = await fetchJson("/server_info", key);
    if (!health.backends) machine.workers = await countWorkers(health, machine.info, key);
  } catch {
    // The line shows what is known.
  }
  return machine;
}

export function showMachine(machine) {
  const texts = machineTexts(machine);
  byId("machine").hidden = texts.length === 0;
  byId("machine-text").replaceChildren(...texts.map((text) => h("span", {}, text)));
}
