// Function body that tests the page's pure functions in the browser. -> {checked: n, failures: ["what: found, expected"]}
return (async () => {
  const [{ renderMarkdown }, { highlighted }, { EventSplitter }, metrics, heat, plot, answer, store, attachments, machine, starting] = await Promise.all(
    ["markdown", "highlight", "sse", "metrics", "heatmap", "plot", "answer", "store", "attachments", "machine", "starting_parts"].map((name) => import(`/page/${name}.js`)));
  const failures = [];
  let checked = 0;
  const same = (what, found, expected) => {
    ++checked;
    const [a, b] = [found, expected].map((value) => JSON.stringify(value));
    if (a !== b) failures.push(`${what}: found ${a}, expected ${b}`);
  };

  // Markdown.
  const html = (text) => {
    const box = document.createElement("div");
    renderMarkdown(box, text);
    for (const element of box.querySelectorAll("*")) {
      for (const { name } of [...element.attributes]) {
        if (!["href", "start", "checked"].includes(name) && !(name === "class" && /^(align|level|formula)/.test(element.className))) element.removeAttribute(name);
      }
    }
    return box.innerHTML;
  };
  const code = (language, text) => `<div><div><span>${language}</span><button><svg><use href="#icon-copy"></use></svg><span>Copy</span></button></div><pre><code>${text}</code></pre></div>`;
  for (const [text, expected] of [
    ["plain", "<p>plain</p>"],
    ["a\nb", "<p>a\nb</p>"],
    ["a\n\nb", "<p>a</p><p>b</p>"],
    ["a  \nb\\\nc", "<p>a<br>b<br>c</p>"],
    ["# One\n### Three #", '<h3 class="level-1">One</h3><h5 class="level-3">Three</h5>'],
    ["#no heading", "<p>#no heading</p>"],
    ["**b** *e* __b__ _e_ ~~d~~", "<p><strong>b</strong> <em>e</em> <strong>b</strong> <em>e</em> <del>d</del></p>"],
    ["***both***", "<p><strong><em>both</em></strong></p>"],
    ["**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
    ["snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"],
    ["84*3/2;84*3=252 and 2**3**4", "<p>84*3/2;84*3=252 and 2**3**4</p>"],
    ["字*字*字**字**字", "<p>字<em>字</em>字<strong>字</strong>字</p>"],
    ["**open", "<p>**open</p>"],
    ["a * b **c**", "<p>a * b <strong>c</strong></p>"],
    ["\\*not\\* \\q", "<p>*not* \\q</p>"],
    ["`a*b*` ``x`y`` `open", "<p><code>a*b*</code> <code>x`y</code> `open</p>"],
    ["[t](https://a.b/c_d_e)", '<p><a href="https://a.b/c_d_e">t</a></p>'],
    ["[**t**](https://a.b \"title\")", '<p><a href="https://a.b/"><strong>t</strong></a></p>'],
    ["see https://a.b/x(y)_z. And <https://c.d>", '<p>see <a href="https://a.b/x(y)_z">https://a.b/x(y)_z</a>. And <a href="https://c.d/">https://c.d</a></p>'],
    ["(https://a.b/x)", '<p>(<a href="https://a.b/x">https://a.b/x</a>)</p>'],
    ["[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"],
    ["[x](data:text/html,y) [y](//evil) [z](/page)", "<p>[x](data:text/html,y) [y](//evil) [z](/page)</p>"],
    ["![alt](https://a.b/i.png)", '<p><a href="https://a.b/i.png">alt</a></p>'],
    ["<b>no</b> <script>x</script> &amp;", "<p>&lt;b&gt;no&lt;/b&gt; &lt;script&gt;x&lt;/script&gt; &amp;amp;</p>"],
    ["$a_1 * b_2 * c$ is $5 and $6", '<p><span class="formula">$a_1 * b_2 * c$</span> is $5 and $6</p>'],
    ["\\(x_1\\) $$y_2_3$$", '<p><span class="formula">\\(x_1\\)</span> <span class="formula">$$y_2_3$$</span></p>'],
    ["- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"],
    ["- a\n\n- b", "<ul><li>a</li><li>b</li></ul>"],
    ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
    ["1. a\n\n   more\n2. b", "<ol><li>a<p>more</p></li><li>b</li></ol>"],
    ["1. a\n   - b\n   - c\n2. d", "<ol><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ol>"],
    ["text\n- a", "<p>text</p><ul><li>a</li></ul>"],
    ["- [x] done\n- [ ] not", '<ul><li><input checked="">done</li><li><input>not</li></ul>'],
    ["- a\n\ntext", "<ul><li>a</li></ul><p>text</p>"],
    ["> q\n> - a\n\nb", "<blockquote><p>q</p><ul><li>a</li></ul></blockquote><p>b</p>"],
    ["---\n***", "<hr><hr>"],
    ["```js\n<b> **x**\n```\nend", code("js", "&lt;b&gt; **x**") + "<p>end</p>"],
    ["```\nopen\n\nstill", code("text", "open\n\nstill")],
    ["~~~\n```\n~~~", code("text", "```")],
    ["| a | b |\n|---|--:|\n| `x|y` | 2 |\n| 3 |", '<div><table><thead><tr><th class="align-left">a</th><th class="align-right">b</th></tr></thead>' +
      '<tbody><tr><td class="align-left"><code>x|y</code></td><td class="align-right">2</td></tr><tr><td class="align-left">3</td><td class="align-right"></td></tr></tbody></table></div>'],
    ["a | b", "<p>a | b</p>"],
    ["", ""],
  ]) same(`markdown ${JSON.stringify(text)}`, html(text), expected);

  // A text that grows is shown like a whole one, wherever it was cut, and blocks that are complete stay in place.
  const sample = "# T\n\n- a\n- **b**\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| 1 |\n\nend *of* it";
  const grown = document.createElement("div");
  const whole = document.createElement("div");
  let first = null;
  for (let end = 1; end <= sample.length; ++end) {
    renderMarkdown(grown, sample.slice(0, end));
    if (end === 10) first = grown.firstChild;
  }
  renderMarkdown(whole, sample);
  same("grown markdown", grown.innerHTML, whole.innerHTML);
  same("a whole block is left alone", grown.firstChild === first, true);

  // Every text takes linear time; on these a reader with quadratic time would take minutes.
  for (const hostile of ["*a ", "_a ", "[", "![", "`", "<", "$x", "\\(", "> ", "- ", "**", "| a ", "http://", "#", "~~a "]) {
    const started = performance.now();
    html(hostile.repeat(20_000));
    const took = performance.now() - started;
    ++checked;
    if (took > 5000) failures.push(`${JSON.stringify(hostile)} 20,000 times takes ${Math.round(took)} ms`);
  }

  // Highlighting loses nothing.
  for (const [language, text] of [["py", "def f(x):  # why\n    return 'a\\'b' + \"c\""], ["cpp", "/* open"], ["sql", "SELECT 1 -- x"], ["unknown", "if x"]]) {
    const nodes = highlighted(text, language);
    same(`highlight ${language}`, nodes.map((node) => node.textContent ?? node).join(""), text);
    same(`colours ${language}`, nodes.some((node) => node.className), language !== "unknown");
  }

  // Events in any cutting.
  const stream = 'data: {"a": 1}\n\n: comment\r\n\r\ndata:{"b": 2}\r\n\r\ndata: [DONE]\n\n';
  for (let cut = 0; cut <= stream.length; ++cut) {
    const splitter = new EventSplitter();
    const events = [...splitter.push(stream.slice(0, cut)), ...splitter.push(stream.slice(cut))];
    if (cut % 10 === 0) same(`events cut at ${cut}`, events, ['{"a": 1}', '{"b": 2}', "[DONE]"]);
  }

  // Metrics.
  const text = (n) => `# HELP x y\nc_total{path="/a\\"b",status="200"} ${n}\nc_total{path="/c",status="404"} 1\n` +
    `h_bucket{le="0.1"} ${n}\nh_bucket{le="0.5"} ${2 * n}\nh_bucket{le="+Inf"} ${2 * n}\nh_sum ${n}\nh_count ${2 * n}\ng 2.5e-1\n`;
  const [before, after] = [new metrics.Sample(text(10), 100), new metrics.Sample(text(30), 110)];
  same("a value", after.value("g"), 0.25);
  same("a sum over series", after.value("c_total"), 31);
  same("an escaped label", after.value("c_total", { path: '/a"b' }), 30);
  same("labels", after.labelValues("c_total", "status"), ["200", "404"]);
  same("a rate", metrics.rate(before, after, "c_total"), 2);
  same("a counter that was reset", metrics.increase(after, before, "c_total", { path: '/a"b' }), 10);
  const between = metrics.histogramBetween(before, after, "h");
  same("a histogram between", between.counts, [20, 40, 40]);
  same("its median", metrics.quantile(between, 0.5), 0.1);
  same("its third quarter", Math.round(metrics.quantile(between, 0.75) * 1000), 300);
  same("its first quarter", metrics.quantile(between, 0.25), 0.05);
  same("no observations", metrics.quantile(metrics.histogramBetween(before, before, "h"), 0.5), null);
  same("beyond the last bound", metrics.quantile({ bounds: [1, Infinity], counts: [0, 5], count: 5 }, 0.5), 1);
  same("a metric that is not there", [after.value("none"), metrics.quantile(after.histogram("none"), 0.5)], [0, null]);

  // Plots and the heat map.
  same("nice ceilings", [0, 0.3, 1, 1.2, 3, 7, 99, 120].map(plot.niceCeiling), [1, 0.5, 1, 2, 5, 10, 100, 200]);
  same("even shares", heat.ratios([2, 2, 2, 2]), [1, 1, 1, 1]);
  same("no rows", heat.ratios([0, 0]), null);
  const counts = (rows) => [{ layer: 3, rows }];
  same("rows since", heat.layersSince(counts([1, 2]), counts([4, 2])), counts([3, 0]));
  same("rows after a restart", heat.layersSince(counts([9, 9]), counts([4, 2])), counts([4, 2]));
  same("the hottest", heat.hottest([{ layer: 1, rows: [1, 1, 2] }, { layer: 2, rows: [0, 0, 0] }]), { layer: 1, expert: 2, ratio: 1.5 });

  // Answers.
  const message = answer.newAnswer();
  const builder = new answer.AnswerBuilder(message);
  const delta = (value, finish = null) => ({ choices: [{ delta: value, finish_reason: finish }], usage: null });
  for (const chunk of [delta({ role: "assistant", reasoning_content: "th", reasoning: "th" }), delta({ reasoning: "ink" }), delta({ content: "Hel" }), delta({ content: "lo" }),
    { choices: [{ index: 1, delta: { content: "of another choice" } }] },
    delta({ tool_calls: [{ index: 0, id: "f:0", function: { name: "f", arguments: "" } }] }), delta({ tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: ":1}" } }] }, "tool_calls"), { choices: [], usage: { prompt_tokens: 3, completion_tokens: 9 } }]) builder.add(chunk);
  builder.end();
  same("reasoning once", message.reasoning, "think");
  same("content", message.content, "Hello");
  same("a call", message.calls, [{ id: "f:0", name: "f", arguments: '{"a":1}' }]);
  message.calls[0].result = "42";
  same("as the API takes it", answer.apiMessages([{ role: "user", content: "q" }, message, { ...answer.newAnswer(), error: {} }], "s"), [
    { role: "system", content: "s" }, { role: "user", content: "q" },
    { role: "assistant", content: "Hello", reasoning_content: "think", tool_calls: [{ id: "f:0", type: "function", function: { name: "f", arguments: '{"a":1}' } }] },
    { role: "tool", tool_call_id: "f:0", content: "42" }]);
  same("durations", [0, 0.08, 5.25, 35, 1400, 125_000].map(answer.duration), ["0", "80 µs", "5.3 ms", "35 ms", "1.4 s", "2 min 5 s"]);

  // Attached files.
  same("no file", attachments.withFiles({ content: "q" }), "q");
  same("files before the text", attachments.withFiles({ content: "q", files: [{ name: "a.txt", text: "one" }, { name: "b.md", text: "```\ntwo\n```" }] }),
    "File a.txt:\n```\none\n```\n\nFile b.md:\n````\n```\ntwo\n```\n````\n\nq");
  same("many fences", attachments.withFiles({ content: "q", files: [{ name: "a", text: "` ".repeat(100_000) }] }).startsWith("File a:\n```\n"), true);
  same("a text file", await attachments.readTextFile(new File(["\u00e4 <b>"], "two\nlines.txt")), { name: "two lines.txt", text: "\u00e4 <b>" });
  for (const [bytes, said] of [[[new Uint8Array([0x89, 0x50])], "not a text file"], [["a\0b"], "not a text file"], [["x".repeat(300 * 1024)], "300 KiB"]]) {
    const failure = await attachments.readTextFile(new File(bytes, "f")).catch(({ message }) => message);
    same(`refused: ${said}`, [failure.includes(said), failure.startsWith("f ")], [true, true]);
  }

  // The state of the machine, and of a server that is starting.
  const state = { running: 2, waiting: 1, kv_blocks_used: 30, kv_blocks_total: 200 };
  const ready = { health: { status: "ready", detail: "" }, info: { internal_states: [state] }, workers: { up: 2, all: 2 }, rate: 41.6 };
  same("a ready machine", machine.machineTexts(ready), ["this answer: 42 tokens/s", "2 requests running, 1 waiting", "KV cache 15 % in use", "2 of 2 workers connected"]);
  same("behind a router", machine.machineTexts({ health: { status: "ready", backends: [{ ready: true }, { ready: false }] }, info: { internal_states: [state, state] }, workers: null, rate: null }),
    ["4 requests running, 2 waiting", "KV cache 15 % in use", "1 of 2 coordinators ready"]);
  same("a lost worker", machine.machineTexts({ ...ready, info: null, health: { status: "degraded", detail: "worker a: gone" }, workers: { up: 0, all: 1 }, rate: null }), ["0 of 1 worker connected"]);
  same("a starting machine", machine.machineTexts({ health: { status: "starting", detail: "loading" }, info: null, workers: null, rate: null }), ["The server is starting: loading"]);
  same("no progress", starting.partsOf("loading the model's weights"), [{ text: "loading the model's weights" }]);
  same("progress of workers", starting.partsOf("waiting for the expert workers: worker a:1 (it loads its weights: 1.0 of 3.0 GiB), worker b:1 (no answer)"), [
    { text: "waiting for the expert workers" }, { text: "worker a:1 (it loads its weights: 1.0 of 3.0 GiB)", done: 1, total: 3 }, { text: "worker b:1 (no answer)" }]);

  // What is read back is checked.
  same("no conversation", [null, 7, {}, { id: "a" }, { id: 1, messages: [] }].map(store.checkedConversation), [null, null, null, null, null]);
  same("files", store.checkedConversation({ id: "a", messages: [{ role: "user", content: "q", files: [{ name: "f", text: "t" }, 7] }] }).messages,
    [{ role: "user", content: "q", files: [{ name: "f", text: "t" }, { name: "", text: "" }] }]);
  same("a damaged one", store.checkedConversation({ id: "a", messages: [{ role: "user" }, { role: "system", content: "x" }, null, { role: "assistant", calls: 7 }] }), {
    id: "a", title: "", updated: 0, messages: [{ role: "user", content: "" }, { role: "assistant", reasoning: "", content: "", calls: [], stopped: true }] });
  return { checked, failures };
})();
