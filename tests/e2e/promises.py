"""Fields of requests that promise something about the answer: real daemons either keep the promise, or refuse the field by its name."""
import json
import os
import re
import signal
import unittest

from daemons import Cluster, stream_text

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TRAINED = os.path.join(ROOT, "deploy/models/nano")
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
BIN = ""
SUM = "What is 84 * 3 / 2?"
GBNF = 'root ::= (  # a dialogue\n  line\n  | line line\n)\nline ::= name ": " [a-z ]{2,8} "!"? "\\n"\nname ::= "Ann" | "Bob"\n'
DIALOGUE = r"((Ann|Bob): [a-z ]{2,8}!?\n){1,2}"


def user(text):
    return [{"role": "user", "content": text}]


class Promises(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, TRAINED, coordinator_flags=["--deterministic"])
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def ask(self, text, **extra):
        """The answer, after checking that a stream gives the same."""
        body = {"messages": user(text), "temperature": 0, "max_tokens": 400, **extra}
        answer = self.cluster.post(CHAT, body)
        self.assertEqual(stream_text(self.cluster.stream(CHAT, body)), answer["choices"][0]["message"]["content"])
        return answer

    def refused(self, param, path=CHAT, **extra):
        body = {"messages": user("x"), **extra} if path == CHAT else {"prompt": "x", **extra}
        error = self.cluster.post(path, body, expect=400)["error"]
        self.assertEqual(error["param"], param, error)
        return error["message"]

    def test_grammars_of_llama_cpp(self):
        message = self.ask("Hello", grammar=GBNF)["choices"][0]["message"]
        self.assertRegex(message["content"], f"^{DIALOGUE}$")
        text = self.cluster.post(TEXT, {"prompt": "x", "max_tokens": 60, "temperature": 1, "grammar": GBNF})["choices"][0]["text"]
        self.assertRegex(text, f"^{DIALOGUE}$")
        self.assertIn("line 2, column 7", self.refused("grammar", grammar='root ::= a\na ::= ]'))
        self.assertIn("line 1", self.refused("grammar", TEXT, grammar='root ::= "a'))

    def test_an_object_with_a_schema(self):
        schema = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9},
                                                    "note": {"enum": ["short", "long"]}}, "required": ["days", "note"]}
        for extra in ({"response_format": {"type": "json_object", "schema": schema}},
                      {"response_format": {"type": "json_schema", "schema": schema}}, {"json_schema": schema}):
            answer = json.loads(self.ask("I go to Rome for 5 days.", **extra)["choices"][0]["message"]["content"])
            self.assertIn(answer["days"], range(1, 10))
            self.assertIn(answer["note"], ("short", "long"))
        schema["properties"]["note"] = {"type": "string", "maxLength": 5000000, "pattern": "^[ab]$"}
        self.ask("x", response_format={"type": "json_object", "schema": schema})
        schema["properties"]["note"] = {"type": "string", "minLength": 5000000}
        self.assertIn("no context holds", self.refused("response_format.schema", response_format={"type": "json_object", "schema": schema}))

    def test_structural_tags(self):
        tag = {"begin": "<sum>", "schema": {"type": "integer"}, "end": "</sum>"}
        free = self.ask(SUM, response_format={"type": "structural_tag", "structures": [tag], "triggers": ["<sum"]})
        self.assertIn("126", free["choices"][0]["message"]["content"])
        forced = {"type": "triggered_tags", "triggers": ["<sum"], "at_least_one": True, "stop_after_first": True,
                  "tags": [{"begin": "<sum>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</sum>"}]}
        sequence = {"type": "sequence", "elements": [{"type": "const_string", "value": "It is "}, {**forced["tags"][0], "type": "tag"}]}
        said = self.ask(SUM, response_format={"type": "structural_tag", "format": sequence})["choices"][0]["message"]["content"]
        self.assertRegex(said, r"^It is <sum>-?[0-9]+</sum>$")
        self.assertIn("the type gherkin", self.refused("response_format", response_format={"type": "structural_tag", "format": {"type": "gherkin"}}))

    def test_bad_words_are_nowhere(self):
        self.assertIn("126", self.ask(SUM)["choices"][0]["message"]["content"])
        for words in (["126"], ["2"], ["is", "The", "a"]):
            message = self.ask(SUM, bad_words=words, max_tokens=80)["choices"][0]["message"]
            for word in words:
                self.assertNotIn(word, message["content"])
                self.assertNotIn(word, message.get("reasoning_content") or "")
        text = self.cluster.post(TEXT, {"prompt": "x", "max_tokens": 50, "temperature": 2, "seed": 1, "bad_words": ["e", " t"], "ignore_eos": True})
        self.assertNotRegex(text["choices"][0]["text"], "e| t")
        self.assertEqual(text["usage"]["completion_tokens"], 50, "ignored ends stay ignored")
        self.refused("bad_words[0]", bad_words=[""])

    def test_prompts_are_truncated(self):
        ids = self.cluster.post("/tokenize", {"prompt": "one two three four five six"})["tokens"]
        for extra, kept in (({"truncate_prompt_tokens": 3}, ids[-3:]), ({"truncate_prompt_tokens": 3, "truncation_side": "right"}, ids[:3]),
                            ({"truncate_prompt_tokens": -1}, ids)):
            answer = self.cluster.post(TEXT, {"prompt": "one two three four five six", "max_tokens": 1, "return_token_ids": True, **extra})
            self.assertEqual(answer["choices"][0]["prompt_token_ids"], kept)
            self.assertEqual(answer["usage"]["prompt_tokens"], len(kept))
        long = self.cluster.post(CHAT, {"messages": user("many words " * 5000), "max_tokens": 5, "truncate_prompt_tokens": -1})
        room = self.cluster.post("/tokenize", {"prompt": "x"})["max_model_len"]
        self.assertEqual(long["usage"]["prompt_tokens"], room - 5)
        self.refused("truncate_prompt_tokens", truncate_prompt_tokens=room + 1)
        self.refused("truncate_prompt_tokens", truncate_prompt_tokens=0)

    def test_reasoning_ends_within_its_budget(self):
        free = self.ask(SUM)["usage"]["completion_tokens_details"]["reasoning_tokens"]
        self.assertGreater(free, 8)
        for name in ("thinking_token_budget", "thinking_budget", "reasoning_budget_tokens"):
            for budget in (0, 5):
                answer = self.ask(SUM, **{name: budget})
                self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], budget)
                self.assertTrue(answer["choices"][0]["message"]["content"])
        self.assertEqual(self.ask(SUM, thinking_token_budget=free + 9)["usage"]["completion_tokens_details"]["reasoning_tokens"], free)
        short = self.ask(SUM, thinking_token_budget=3, structured_outputs={"regex": "[0-9]{2}"})
        self.assertRegex(short["choices"][0]["message"]["content"], "^[0-9]{2}$")
        body = {"model": "nano", "messages": user(SUM), "max_tokens": 200, "thinking": {"type": "enabled", "budget_tokens": 4}}
        model = json.loads(self.cluster.request("GET", "/v1/models")[2])["data"][0]["id"]
        blocks = self.cluster.post("/v1/messages", {**body, "model": model})["content"]
        thought = "".join(block.get("thinking", "") for block in blocks)
        self.assertLessEqual(len(self.cluster.post("/tokenize", {"prompt": thought or "x"})["tokens"]), 5)
        self.refused("thinking_token_budget", TEXT, thinking_token_budget=5)

    def test_patterns_stop_the_answer(self):
        said = self.ask("Count from 1 to 9.")["choices"][0]["message"]["content"]
        pattern = "[5-7][^0-9]"
        found = re.search(pattern, said)
        self.assertTrue(found, said)
        choice = self.ask("Count from 1 to 9.", stop_regex=[pattern, "never here"])["choices"][0]
        self.assertEqual(choice["message"]["content"], said[:found.start()])
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", pattern))
        choice = self.ask("Count from 1 to 9.", stop_regex=pattern, include_stop_str_in_output=True)["choices"][0]
        self.assertEqual(choice["message"]["content"], said[:found.end()])
        self.refused("stop_regex", stop_regex="a*")
        self.refused("stop_regex", stop_regex="(a")

    def test_what_is_not_obeyed_is_refused(self):
        for field, value in {"mirostat": 2, "typical_p": 0.9, "use_beam_search": True, "lora_path": "x", "chat_template": "{{ x }}",
                             "functions": [{"name": "f"}], "modalities": ["audio"], "documents": [{"text": "d"}],
                             "logits_processors": ["x"], "n_probs": 3}.items():
            self.refused(field, **{field: value})
        self.refused("messages[0].tools", messages=[{"role": "system", "content": "x", "tools": [{"type": "function"}]}])
        off = {"mirostat": 0, "typical_p": 1.0, "use_beam_search": False, "modalities": ["text"], "functions": [], "mirostat_tau": 5.0,
               "length_penalty": 1, "nobody_knows_this": {"a": 1}}
        self.assertEqual(self.ask(SUM, **off)["choices"], self.ask(SUM)["choices"])

    def test_fields_that_are_ignored_are_named(self):
        for path, body in ((CHAT, {"messages": user("x"), "max_tokens": 2}), (TEXT, {"prompt": "x"}), ("/v1/responses", {"input": "x", "max_output_tokens": 2}),
                           ("/v1/messages", {"messages": user("x"), "max_tokens": 2})):
            for extra in ({}, {"stream": True}):
                sent = {**body, "temprature": 0.2, "metadata": {}, "a name with blanks": 1, **extra}
                status, headers, reply = self.cluster.request("POST", path, sent)
                self.assertEqual(status, 200, reply)
                self.assertEqual(headers["X-NUMoE-Ignored-Fields"], "temprature, ?")
            self.assertNotIn("X-NUMoE-Ignored-Fields", self.cluster.request("POST", path, body)[1])
        lines = [line for line in self.cluster.coordinator.log().splitlines() if "were ignored" in line]
        self.assertGreaterEqual(len(lines), 1, "at most one in a minute")
        self.assertIn("temprature", lines[0])

    def test_a_last_message_is_continued(self):
        begun = [*user("Count from 1 to 9."), {"role": "assistant", "content": "1, 2, 3,"}]
        asked = {"temperature": 0, "max_tokens": 20}
        expected = self.cluster.post(CHAT, {"messages": begun, "continue_final_message": True, **asked})["choices"][0]["message"]["content"]
        for name in ("partial", "prefix"):
            messages = [begun[0], {**begun[1], name: True}]
            self.assertEqual(self.cluster.post(CHAT, {"messages": messages, **asked})["choices"][0]["message"]["content"], expected)
            echoed = self.cluster.post(CHAT, {"messages": messages, "echo": True, **asked})["choices"][0]["message"]["content"]
            self.assertEqual(echoed, "1, 2, 3," + expected)

    def test_promises_survive_the_death_of_a_worker(self):
        body = {"messages": user(SUM), "temperature": 0, "max_tokens": 80, "thinking_token_budget": 9, "bad_words": ["126"],
                "stop_regex": "never[0-9]"}
        undisturbed = self.cluster.post(CHAT, body)
        self.assertEqual(undisturbed["usage"]["completion_tokens_details"]["reasoning_tokens"], 9)
        victim = self.cluster.workers[1]

        def break_it(count):
            if count == 5:
                victim.stop(signal.SIGKILL)
                self.cluster.await_health("degraded", 10)
                victim.start()

        events = self.cluster.stream(CHAT, body, on_event=break_it)
        self.assertEqual(stream_text(events), undisturbed["choices"][0]["message"]["content"])
        self.cluster.await_health("ready", 10)
