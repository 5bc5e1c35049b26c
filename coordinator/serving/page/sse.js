// Server-sent events out of a byte stream, as far as the OpenAI API uses them: "data:" lines, one event each.

/** Takes text in any cutting and returns the data of the events that it completes. */
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

/** The data of each event of a response's body, in order. */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const splitter = new EventSplitter();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield* splitter.push(value);
  }
}
