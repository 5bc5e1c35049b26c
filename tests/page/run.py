#!/usr/bin/env python3
"""Tests the page at "/" in headless Chromium, with real daemons that serve the trained model.

Usage: run.py --bin build/release/bin [--shots DIR] [TEST...]   (--shots: keep pictures to look at)
Skips the tests, and says so, if Chromium or its driver is not installed; that is a failure if NUMOE_REQUIRE=1 is set.
"""
import argparse
import glob
import json
import os
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tests", "support")]
import browser  # noqa: E402
import routing  # noqa: E402
import skips  # noqa: E402
from daemons import Cluster, until  # noqa: E402
from ports import free_port  # noqa: E402

MODEL = os.path.join(ROOT, "deploy/models/nano")
BIN = ""
SHOTS = ""
LIGHT = {"prefers_color_scheme": "light", "prefers_reduced_motion": "reduce"}
LONG = {"ignore_eos": True, "max_tokens": 3000}  # an answer that lasts until it is stopped
WEATHER = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


class Page(unittest.TestCase):
    """One cluster and one browser; every test starts with an empty storage and ends with a clean console."""

    flags = []

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.make_cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.b = browser.Browser()
        cls.addClassCleanup(cls.b.__exit__)
        cls.url = f"http://127.0.0.1:{cls.cluster.port}/"

    @classmethod
    def make_cluster(cls):
        return Cluster(BIN, MODEL, coordinator_flags=["--max-num-seqs", "8", *cls.flags])

    def setUp(self):
        self.b.size(1280, 860)
        self.b.media(**LIGHT)
        self.b.open("about:blank")
        self.b.requests()
        self.b.open(self.url)
        self.b.run("localStorage.clear()")
        self.b.open("about:blank")
        self.b.open(self.url)
        self.b.wait("the model's name", "!['…', ''].includes(document.getElementById('model').textContent)")
        self.expected_errors = ()

    def tearDown(self):
        if SHOTS:
            self.shot(f"{self.id().split('.')[-1]}-end")
        said = [m for m in self.b.console() if not any(e in m for e in self.expected_errors)]
        self.assertEqual(said, [], "the console is not clean")
        origin = self.url.rstrip("/")
        outside = {r for r in self.b.requests() if not r.startswith((origin + "/", "data:", "about:", "chrome:", f"blob:{origin}/"))}
        self.assertEqual(outside, set(), "the page sent a request to another server")

    def shot(self, name):
        if SHOTS:
            self.b.screenshot(os.path.join(SHOTS, name + ".png"))

    # Actions of a person.

    def settings(self, **values):
        self.b.run("localStorage.setItem('numoe.settings', JSON.stringify(arguments[0]))",
                   {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()})
        self.b.reload()
        self.b.wait("the page", "document.getElementById('send') && document.activeElement.id === 'question'")

    def ask(self, text, wait=True):
        self.b.run("document.getElementById('question').focus()")
        self.b.press(text, "Enter")
        if wait:
            self.answered()

    def answered(self):
        return self.b.wait("the end of an answer", "document.querySelector('.answer:last-child') && "
                           "!document.querySelector('.answer.running') && document.title && "
                           "(document.querySelector('.answer:last-child .stats')?.textContent || "
                           "document.querySelector('.answer:last-child .error')?.textContent)")

    def metric(self, name):
        _, _, text = self.cluster.request("GET", "/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


class FirstVisit(Page):
    def test_an_empty_conversation_says_what_to_click(self):
        self.assertIn("chat with the language model", self.b.text("#welcome"))
        self.assertEqual(len(self.b.texts(".suggestion")), 3)
        self.shot("first-visit")
        for panel in ("settings", "live"):
            self.b.click(f"#welcome [data-panel={panel}]")
            self.assertTrue(self.b.visible(f"#{panel}"))
            self.b.press("Escape")
            self.assertEqual(self.b.run("return document.activeElement.dataset.panel"), panel, "focus comes back")
        self.b.click(".suggestion")
        self.answered()
        self.assertEqual(self.b.text(".question .bubble"), "What is 84 * 3 / 2?")
        self.assertFalse(self.b.visible("#welcome"))

    def test_the_machine_is_shown_below_the_message(self):
        self.b.wait("the idle machine", "document.getElementById('machine-text').textContent.includes('0 requests running, 0 waiting')")
        self.assertIn("2 of 2 workers connected", self.b.text("#machine"))
        self.assertRegex(self.b.text("#machine"), r"KV cache \d+ % in use")
        self.settings(extra=LONG)
        self.ask("Tell me about NUMoE.", wait=False)
        self.b.wait("the busy machine", "/this answer: [1-9][0-9.]* tokens.s[^]*1 request running, 0 waiting/"
                    ".test(document.getElementById('machine').innerText)")
        self.shot("machine")
        self.b.click("#machine")
        self.assertTrue(self.b.visible("#live"))
        self.b.click("#machine")
        self.assertFalse(self.b.visible("#live"))
        self.b.click("#send.stop")
        self.answered()

    def test_a_text_file_goes_in_front_of_the_message(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = os.path.join(folder, "<b>notes<b>.txt"), os.path.join(folder, "picture.bin")
            with open(good, "w", encoding="utf-8") as f:
                f.write("84 <i>apples</i>")
            with open(bad, "wb") as f:
                f.write(b"\x89PNG\x00")
            self.b.upload("#attach-file", bad)
            self.b.wait("the refusal", "document.getElementById('notices').textContent.includes('picture.bin is not a text file')")
            self.b.run("document.getElementById('notices').replaceChildren()")  # it would cover the file
            self.b.upload("#attach-file", good)
            self.b.wait("the file", "document.querySelector('#attached li')")
            self.b.click("#attached button")
            self.assertFalse(self.b.visible("#attached"))
            self.b.upload("#attach-file", good)
            self.b.wait("the file again", "document.querySelector('#attached li')")
        self.shot("attached")
        self.b.run("""const send = window.fetch;
            window.fetch = (path, options) => { if (options?.body) window.sent = JSON.parse(options.body); return send(path, options); };""")
        self.ask("How many?")
        self.assertEqual(self.b.run("return sent.messages[0].content"), "File <b>notes<b>.txt:\n```\n84 <i>apples</i>\n```\n\nHow many?")
        self.assertFalse(self.b.visible("#attached"))
        self.assertEqual(self.b.text("#title"), "How many?")
        self.b.reload()
        self.b.wait("the conversation after a reload", "document.querySelector('.question .file')")
        self.assertEqual(self.b.text(".file summary"), "<b>notes<b>.txt")
        self.b.click(".file summary")
        self.assertEqual(self.b.text(".file pre"), "84 <i>apples</i>")


class Starting(unittest.TestCase):
    """A browser that comes while the server loads its model."""

    def test_the_page_shows_the_start_and_opens_the_chat(self):
        cluster = Cluster(BIN, MODEL)
        self.addCleanup(cluster.__exit__)
        port = str(free_port())
        cluster.coordinator.argv[cluster.coordinator.argv.index("--port") + 1] = port
        with open(cluster.port_file, "w", encoding="ascii") as f:  # the coordinator writes it only when it is ready
            f.write(port)
        cluster.coordinator.start()
        until("the coordinator waits for the workers", lambda: "worker" in cluster.await_health("starting")["detail"])
        status, headers, text = cluster.request("GET", "/", headers={"Accept": "*/*"})
        self.assertEqual((status, headers["Content-Type"], json.loads(text)["error"]["code"]), (503, "application/json", "starting"))
        status, headers, _ = cluster.request("GET", "/", headers={"Accept": "text/html,*/*;q=0.8"})
        self.assertEqual((status, headers["Content-Type"]), (503, "text/html; charset=utf-8"))
        self.assertIn("default-src 'self'", headers["Content-Security-Policy"])
        b = browser.Browser()
        self.addCleanup(b.__exit__)
        b.size(1280, 860)
        b.media(**LIGHT)
        b.open(f"http://127.0.0.1:{port}/")
        b.wait("the two workers", "document.querySelectorAll('#parts li').length >= 3")
        self.assertIn("worker", b.text("#parts"))
        self.assertTrue(b.visible("#parts progress"))
        if SHOTS:
            b.screenshot(os.path.join(SHOTS, "starting.png"))
        # What the server says is shown as text, and as a bar where it names sizes.
        b.run("""const ask = window.fetch;
            window.fetch = (path) => path !== "/health" ? ask(path) : Promise.resolve(new Response(JSON.stringify(
              {status: "starting", detail: "waiting: worker <b>a</b> (it loads its weights: 1.0 of 3.0 GiB)"}), {status: 503}));
            window.restore = () => { window.fetch = ask; };""")
        b.wait("the bar", "document.querySelector('#parts progress')?.value === 1 && document.querySelector('#parts progress').max === 3")
        self.assertIn("worker <b>a</b> (it loads its weights: 1.0 of 3.0 GiB)", b.text("#parts"))
        if SHOTS:
            b.screenshot(os.path.join(SHOTS, "starting-progress.png"))
        b.run("restore()")
        for worker in cluster.workers:
            worker.start()
        b.wait("the chat", "document.getElementById('model')?.textContent === 'nano'")
        said = [m for m in b.console() if "503 (Service Unavailable)" not in m]
        self.assertEqual(said, [], "the console is not clean")


class Conversation(Page):
    def test_an_answer_streams_with_its_reasoning_folded(self):
        self.b.run("""
            window.seen = {open: 0, thinking: 0, lengths: new Set()};
            new MutationObserver(() => {
              const answer = document.querySelector('.answer.running');
              if (!answer) return;
              const details = answer.querySelector('.thinking');
              if (details.open) ++seen.open;
              if (details.textContent.startsWith('Thinking')) ++seen.thinking;
              seen.lengths.add(answer.textContent.length);
            }).observe(document.getElementById('messages'), {subtree: true, childList: true, characterData: true, attributes: true});""")
        self.ask("What is 84 * 3 / 2?")
        seen = self.b.run("return {...seen, lengths: seen.lengths.size}")
        self.assertGreater(seen["open"], 0, "the reasoning is shown while it is received")
        self.assertGreater(seen["thinking"], 0)
        self.assertGreater(seen["lengths"], 1, "the answer came in pieces; how many fall into a frame depends on the machine")
        self.assertIn("126", self.b.text(".answer .content"))
        self.assertFalse(self.b.run("return document.querySelector('.thinking').open"), "the reasoning folds when the answer begins")
        self.assertRegex(self.b.text(".thinking summary"), r"^Thought for \d")
        self.b.click(".thinking summary")
        self.assertRegex(self.b.text(".thinking .md"), r"\d")
        self.assertRegex(self.b.text(".stats"), r"^\d+ tokens · [\d.]+ tokens/s · first after [\d.]+ .?s · prompt \d+")
        self.assertEqual(self.b.run("return document.querySelector('.answer').getAttribute('aria-busy')"), "false")
        self.assertEqual(self.b.run("return document.getElementById('announcer').textContent"), "The answer is complete")
        self.shot("desktop-light")
        self.b.media(prefers_color_scheme="dark")
        self.shot("desktop-dark")

    def test_stop_ends_the_answer_here_and_on_the_server(self):
        self.settings(extra=LONG)
        for press in (lambda: self.b.press("Escape"), lambda: self.b.click("#send.stop")):
            before = self.metric('numoe_requests_finished_total{reason="cancelled"}')
            self.ask("Tell me about NUMoE.", wait=False)
            self.b.wait("some tokens", "document.querySelector('.answer.running')?.textContent.length > 20")
            press()
            self.answered()
            self.assertIn("stopped", self.b.text(".answer:last-child .stats"))
            self.b.wait("the server's cancelling", lambda: self.metric('numoe_requests_finished_total{reason="cancelled"}') == before + 1)
            text = self.b.text(".answer:last-child")
            time.sleep(0.3)
            self.assertEqual(self.b.text(".answer:last-child"), text, "the answer continues after Stop")

    def test_regenerate_asks_the_same_again(self):
        self.settings(temperature="0")
        self.ask("What is 12 + 30?")
        first = self.b.text(".answer .content")
        self.b.run("document.querySelector('.answer').dataset.first = true")
        self.b.click(".regenerate")
        self.b.wait("the new answer", "document.querySelector('.answer:not([data-first])')")
        self.answered()
        self.assertEqual(self.b.texts(".answer .content"), [first])
        self.assertEqual(len(self.b.texts(".question")), 1)

    def test_editing_a_question_drops_what_followed(self):
        self.settings(temperature="0")
        self.ask("What is 2 + 2?")
        self.ask("What is 3 + 3?")
        self.b.press("Up")
        self.b.wait("the editor", "document.activeElement.matches('.editor textarea')")
        self.b.press("Escape")
        self.assertFalse(self.b.visible(".editor"))
        self.b.run("document.querySelector('.question .edit').click()")  # the first one
        self.b.press(("Control", "a"), "What is 5 + 8?", "Enter")
        self.answered()
        self.assertEqual(len(self.b.texts(".question")), 1)
        self.assertIn("13", self.b.text(".answer .content"))

    def test_errors_are_shown_in_the_servers_words(self):
        self.expected_errors = ("400 (Bad Request)", "chat/completions")
        self.settings(extra={"top_k": 1.5})
        self.ask("Hello")
        self.assertIn("400 · top_k", self.b.text(".error"))
        self.assertIn("'top_k': expected an integer", self.b.text(".error"))
        self.shot("error")
        self.settings(extra={})
        self.b.click("#chats .chat-title")
        self.b.click(".error .quiet-button")
        self.b.wait("an answer", "document.querySelector('.answer .content')?.textContent && !document.querySelector('.answer.running')")
        self.assertEqual(len(self.b.texts(".answer")), 1)
        self.assertFalse(self.b.visible(".error"))

    def test_a_tool_call_is_shown_and_answered(self):
        self.settings(tools=WEATHER, temperature="0")
        self.ask("What is the weather in Paris?")
        self.assertEqual(self.b.text(".call-head code"), "get_weather")
        self.assertIn('"city": "Paris"', self.b.text(".call pre"))
        self.assertIn("does not execute tool calls", self.b.text(".call-note"))
        self.shot("tool-call")
        self.b.type(".call textarea", "Sunny, 21 degrees")
        self.b.click(".calls .main-button")
        self.b.wait("the second answer", "document.querySelectorAll('.answer').length === 2 && !document.querySelector('.answer.running')")
        self.assertEqual(self.b.text(".call-result pre"), "Sunny, 21 degrees")
        self.assertFalse(self.b.visible(".call-note"))
        self.assertIn("unny", self.b.text(".answer:last-child .content"))

    def test_parameters_reach_the_server(self):
        self.b.click("[data-panel=settings]")
        for name, value in (("temperature", "0"), ("top_p", "0.9"), ("top_k", "40"), ("min_p", "0.05"), ("max_tokens", "7"), ("seed", "42"),
                            ("system", "You count.")):
            self.b.type(f"#set-{name}", value)
        self.b.run("""const choice = document.getElementById('set-thinking');
            choice.value = 'off';
            choice.dispatchEvent(new Event('change'));
            const send = window.fetch;
            window.fetch = (path, options) => { if (options?.body) window.sent = JSON.parse(options.body); return send(path, options); };""")
        self.ask("Count from 3 to 30.")
        sent = self.b.run("return sent")
        self.assertEqual(sent["messages"], [{"role": "system", "content": "You count."}, {"role": "user", "content": "Count from 3 to 30."}])
        kwargs = {"thinking": False, "enable_thinking": False}
        self.assertLessEqual({"temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 7, "seed": 42, "stream": True}.items(),
                             {k: v for k, v in sent.items() if not isinstance(v, (dict, list))}.items())
        self.assertEqual(sent["chat_template_kwargs"], kwargs)
        self.assertIn("7 tokens", self.b.text(".stats"))
        self.assertIn("cut at the token limit", self.b.text(".stats"))
        self.b.run("document.getElementById('set-top_p').select()")
        self.b.press("7")
        self.assertIn("from 0 to 1", self.b.text("#set-top_p-problem"))
        self.b.type("#set-extra", "{")
        self.assertIn("not JSON", self.b.text("#set-extra-problem"))
        self.shot("settings")

    def test_an_answer_continues_while_another_conversation_is_shown(self):
        self.settings(extra={"ignore_eos": True, "max_tokens": 500})
        self.ask("Tell me about experts.", wait=False)
        self.b.wait("some tokens", "document.querySelector('.answer.running')?.textContent.length > 20")
        self.b.press(("Control", "k"))
        self.assertTrue(self.b.visible("#welcome"))
        self.assertTrue(self.b.visible("#chats li.running"))
        self.b.wait("its end", "!document.querySelector('#chats li.running')")
        self.b.click("#chats .chat-title")
        self.assertIn("500 tokens", self.b.text(".stats"))


class Keeping(Page):
    def test_conversations_are_listed_renamed_deleted_and_come_back(self):
        self.settings(temperature="0")
        self.ask("What is 1 + 1?")
        self.b.press(("Control", "k"))
        self.ask("What is 2 + 3?")
        self.assertEqual([t.strip() for t in self.b.texts(".chat-title")], ["What is 2 + 3?", "What is 1 + 1?"])
        self.b.reload()
        self.b.wait("the conversation after a reload", "document.querySelector('.answer .content')?.textContent")
        self.assertEqual(self.b.text("#title"), "What is 2 + 3?")
        self.b.run("document.querySelector('#chats [aria-label^=Rename]').click()")
        self.b.press("Sums", "Enter")
        self.assertEqual(self.b.text("#title"), "Sums")
        self.b.run("document.querySelector('#chats [aria-label=\"Delete Sums\"]').click()")
        self.assertEqual([t.strip() for t in self.b.texts(".chat-title")], ["What is 1 + 1?"])
        self.b.click("#notices .text-button")
        self.assertEqual([t.strip() for t in self.b.texts(".chat-title")], ["Sums", "What is 1 + 1?"])
        self.assertEqual(self.b.text("#title"), "Sums")

    def test_export_and_import(self):
        self.settings(temperature="0")
        self.ask("What is 1 + 1?")
        self.b.click("#export")
        pattern = os.path.join(self.b.folder, "numoe-conversations-*.json")
        path = self.b.wait("the file", lambda: glob.glob(pattern))[0]
        with open(path, encoding="utf-8") as f:
            exported = json.load(f)
        self.assertEqual(exported["format"], "numoe-conversations")
        self.assertEqual(exported["conversations"][0]["messages"][0]["content"], "What is 1 + 1?")
        self.b.run("document.querySelector('#chats [aria-label^=Delete]').click()")
        self.assertTrue(self.b.visible("#no-chats"))
        self.b.upload("#import-file", path)
        self.b.wait("the imported one", "document.querySelector('.chat-title')")
        self.b.click(".chat-title")
        self.assertIn("2", self.b.text(".answer .content"))
        for text, said in (("nothing", "not JSON"), ('{"a": 1}', "has no conversations"),
                           ('{"format": "numoe-conversations", "conversations": [{"id": 1}]}', "Entry 1 of the file is not a conversation")):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
                f.write(text)
                f.flush()
                self.b.upload("#import-file", f.name)
                self.b.wait(said, f"document.getElementById('notices').textContent.includes({json.dumps(said)})")


class Access(Page):
    def test_keyboard_only(self):
        """From the address bar: skip link, ask, stop, settings, live view, list; focus is always seen."""
        self.settings(extra=LONG)
        self.b.run("""const start = document.createElement('span');
            start.tabIndex = -1;
            document.body.prepend(start);
            start.focus();
            start.remove();""")
        self.b.press("Tab")
        self.assertEqual(self.b.run("return document.activeElement.className"), "skip")
        self.b.press("Enter")
        self.assertEqual(self.b.run("return document.activeElement.id"), "question")
        self.b.press("one", ("Shift", "Enter"), "two")
        self.assertEqual(self.b.run("return document.activeElement.value"), "one\ntwo")
        self.b.press("Enter")
        self.b.wait("some tokens", "document.querySelector('.answer.running')?.textContent.length > 20")
        self.b.press("Escape")
        self.answered()
        reached = set()
        for _ in range(40):
            self.b.press("Tab")
            state = self.b.run("""const e = document.activeElement, s = getComputedStyle(e), box = e.closest('#composer');
                return {name: e.getAttribute('aria-label') || e.textContent.trim().slice(0, 40) || e.id || e.tagName,
                        seen: e === document.body || s.outlineStyle !== 'none' || (box && getComputedStyle(box).borderColor)}""")
            self.assertTrue(state["seen"], f"no focus ring on {state['name']}")
            reached.add(state["name"])
        for name in ("Settings", "Live view", "Copy message", "Edit message", "Regenerate", "Export", "Import"):
            self.assertIn(name, reached)
        self.b.run("document.querySelector('header [data-panel=settings]').focus()")
        self.b.press("Enter")
        self.assertEqual(self.b.run("return document.activeElement.id"), "settings-title")
        self.b.press("Escape")
        self.assertEqual(self.b.run("return document.activeElement.dataset.panel"), "settings", "focus comes back")

    def test_every_control_has_a_name(self):
        self.ask("What is 1 + 1?")
        for panel in ("settings", "live"):
            self.b.click(f"header [data-panel={panel}]")
            unnamed = self.b.run("""return [...document.querySelectorAll('button, input, textarea, select, canvas[role], [role=region]')]
                .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length || e.title))
                .map((e) => e.outerHTML.slice(0, 120))""")
            self.assertEqual(unnamed, [])

    def test_text_has_contrast(self):
        """WCAG AA in both themes: 4.5 to 1 for every text that is shown, 3 to 1 for large text."""
        with open(os.path.join(HERE, "contrast.js"), encoding="utf-8") as f:
            script = f.read()
        self.import_sample()
        for scheme in ("light", "dark"):
            self.b.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
            for panel in ("", "settings", "live"):
                if panel:
                    self.b.click(f"header [data-panel={panel}]")
                    time.sleep(0.2)
                result = self.b.run(script)
                self.assertGreater(result["checked"], 20)
                self.assertEqual(result["poor"], [], scheme)
                if panel:
                    self.b.press("Escape")
            self.shot(f"markdown-{scheme}")

    def import_sample(self):
        self.b.upload("#import-file", os.path.join(HERE, "sample.json"))
        self.b.wait("the sample", "document.querySelector('.chat-title[title=\"How experts are served\"]')")
        self.b.click(".chat-title[title='How experts are served']")
        self.b.wait("its table", "document.querySelector('.md table')")
        self.b.run("document.getElementById('notices').replaceChildren()")

    def test_phone(self):
        self.b.size(360, 740, 2, touch=True)
        self.b.reload()
        self.b.wait("the page", "document.activeElement.id === 'question'")
        self.assertFalse(self.b.visible("#sidebar"))
        self.ask("What is 84 * 3 / 2?")
        self.shot("phone")
        self.b.click("#open-list")
        self.assertTrue(self.b.visible("#sidebar"))
        self.assertTrue(self.b.run("return document.getElementById('main').inert"))
        self.shot("phone-list")
        self.import_sample()
        self.assertFalse(self.b.visible("#sidebar"), "choosing closes the list")
        self.shot("phone-markdown")
        for panel in ("settings", "live"):
            self.b.click(f"header [data-panel={panel}]")
            self.b.wait("the panel", f"document.getElementById('{panel}').checkVisibility()")
            time.sleep(0.3)
            self.assertEqual(self.b.run("return [document.documentElement.scrollWidth, "
                                        f"document.getElementById('{panel}-body').scrollWidth <= innerWidth]"), [360, True])
            self.shot(f"phone-{panel}")
            self.b.click(f"#{panel} [data-panel='']")
        small = self.b.run("""return [...document.querySelectorAll('button')].filter((e) => e.checkVisibility() && e.getClientRects().length)
            .map((e) => [e.getAttribute('aria-label') || e.textContent, e.getBoundingClientRect()])
            .filter(([, box]) => box.width < 24 || box.height < 24).map(([name]) => name)""")
        self.assertEqual(small, [], "too small to be touched")

    def test_reduced_motion(self):
        self.assertEqual(self.b.run("return getComputedStyle(document.querySelector('.thinking summary .icon, .icon')).animationName"), "none")
        self.b.media(prefers_color_scheme="light", prefers_reduced_motion="no-preference")
        self.settings(extra=LONG)
        self.ask("Tell me about experts.", wait=False)
        running = "getComputedStyle(document.querySelector('#chats li.running .chat-title'), '::before').animationName"
        self.assertEqual(self.b.wait("the mark", f"document.querySelector('#chats li.running') && {running}"), "breathe")
        self.b.media(**LIGHT)
        self.assertEqual(self.b.run(f"return {running}"), "none")
        self.b.press("Escape")
        self.answered()


class Live(Page):
    def test_numbers_move(self):
        self.b.click("header [data-panel=live]")
        self.ask("What is 845 + 391?")
        self.b.wait("tokens per second", "document.querySelectorAll('.figures b')[0].textContent.match(/[1-9]/)")
        for card in ("Time to first token", "Time between tokens"):
            self.b.wait(card, f"document.querySelector('[aria-label=\"{card}\"] .figures b').textContent.match(/\\d.*(µs|ms|s)$/)")
        self.assertRegex(self.b.text("[aria-label='KV cache in use'] .note"), r"\d of [\d,]+ blocks")
        self.b.wait("the parts of a step", "document.querySelectorAll('.parts li').length >= 8")
        self.assertIn("experts", " ".join(self.b.texts(".parts li")))
        self.assertEqual(len(self.b.texts(".workers > li")), 2)
        self.b.wait("the workers' calls", "[...document.querySelectorAll('.workers > li')].every((li) => li.textContent.match(/calls\\/s[1-9]/))")
        self.b.wait("the heat map", "document.querySelector('.heat').getAttribute('aria-label').includes('hottest: expert')")
        colours = self.b.run("""const c = document.querySelector('.heat'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < d.length; i += 4) seen.add(`${d[i]},${d[i + 1]},${d[i + 2]}`);
            return seen.size""")
        self.assertGreater(colours, 10, "the map has only one colour")
        self.b.size(1280, 2600)
        time.sleep(0.2)
        self.shot("live")
        self.b.media(prefers_color_scheme="dark")
        self.b.size(1600, 1200)
        self.b.click("#widen")
        time.sleep(1.2)
        self.shot("live-wide-dark")
        self.b.click("#widen")

    def test_it_polls_only_while_it_is_shown(self):
        self.b.requests()
        time.sleep(1.2)
        self.assertFalse([r for r in self.b.requests() if r.endswith("/metrics")])
        self.b.click("header [data-panel=live]")
        asked = []
        self.b.wait("three polls", lambda: asked.extend(r for r in self.b.requests() if r.endswith("/metrics")) or len(asked) >= 3)
        self.b.press("Escape")
        self.b.requests()
        time.sleep(1.5)
        self.assertFalse([r for r in self.b.requests() if r.endswith("/metrics")])


class BehindRouter(Page):
    """Two coordinators: one of them serves the page, and the page's requests go through the router."""

    @classmethod
    def make_cluster(cls):
        routing.BIN = BIN
        return routing.House()

    def test_the_live_view_shows_the_coordinators(self):
        rows = "[...document.querySelectorAll('[aria-label=Coordinators] .workers > li')]"
        figures = rows + ".map((li) => Object.fromEntries([...li.querySelectorAll('dl > div')].map((d) => [...d.children].map((c) => c.textContent))))"
        self.settings(extra=LONG)
        self.b.click("header [data-panel=live]")
        self.ask("Count", wait=False)
        self.b.wait("an answer that runs on one of them",
                    f"{figures}.map((f) => f.running).sort().join() === '0,1' && {figures}.some((f) => Number(f['tokens/s'].replace(',', '')) > 0)")
        self.b.wait("the sum", "document.querySelectorAll('[aria-label=Requests] .figures b')[0].textContent === '1'")
        self.b.wait("tokens per second", "document.querySelectorAll('.figures b')[0].textContent.match(/[1-9]/)")
        self.shot("coordinators")
        self.b.click("#send.stop")
        self.answered()
        hosts = [url.removeprefix("http://") for url in self.cluster.urls]
        self.assertEqual(self.b.run(f"return {rows}.map((li) => li.querySelector('code').textContent)"), hosts)
        self.assertEqual(self.b.run(f"return {rows}.map((li) => li.querySelector('small').textContent)"), ["ready", "ready"])
        hidden = self.b.run("return [...document.querySelectorAll('.card[hidden]')].map((card) => card.getAttribute('aria-label'))")
        self.assertIn("Expert workers", hidden)
        self.cluster.doors[1].daemon.stop()
        self.b.wait("the one that is gone", f"{rows}[1].querySelector('.state.down') && {figures}[1].running === '–'")
        self.assertNotEqual(self.b.run(f"return {rows}[1].querySelector('small').textContent"), "ready")
        self.assertEqual(self.b.run(f"return {rows}[0].querySelector('small').textContent"), "ready")


class Locked(Page):
    flags = ["--api-key", "sesame"]

    def test_a_key_is_asked_for(self):
        self.expected_errors = ("401 (Unauthorized)",)
        self.assertEqual(self.b.text("#model"), "API key needed")
        self.ask("Hello")
        self.assertIn("401", self.b.text(".error"))
        self.b.click(".error .quiet-button")
        self.assertEqual(self.b.run("return document.activeElement.id"), "set-key")
        self.b.press("sesame")
        self.b.wait("the model's name", "document.getElementById('model').textContent === 'nano'")
        self.b.press("Escape")
        self.b.press(("Control", "k"))
        self.ask("What is 1 + 1?")
        self.assertIn("2", self.b.text(".answer .content"))


class Pieces(Page):
    """The scripts' own functions, called in the browser."""

    def test_pieces(self):
        with open(os.path.join(HERE, "pieces.js"), encoding="utf-8") as f:
            result = self.b.run(f.read())
        self.assertGreater(result["checked"], 60)
        self.assertEqual(result["failures"], [])


def main():
    global BIN, SHOTS
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shots", default="", help="a folder for pictures of the page")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    BIN, SHOTS = os.path.abspath(args.bin), args.shots
    if absent := browser.missing():
        return skips.status_of("page", f"not installed: {absent} (apt-get install chromium chromium-driver)")
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
    return skips.finish(unittest.main(argv=[sys.argv[0], *args.tests], exit=False, verbosity=2).result)


if __name__ == "__main__":
    sys.exit(main())
