// Reads server-sent events from a byte stream, as far as the OpenAI API uses them: "data:" lines, one for each event.

/** Takes text in pieces of any length and returns the data of the events that are complete. */
export class EventSplitter {
  #rest = "";

  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line.startsWith("data:")) events.push(line.slice(5).trim());
    }
    return events;
  }
}

/** Returns the data of each event of a response's body, in order. */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const splitter = new EventSplitter();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield* splitter.push(value);
  }
}
