"""What other servers' clients and test suites expect in requests and answers: names, fields of errors, locks, deadlines."""
import json
import os
import unittest

from daemons import Cluster

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TRAINED = os.path.join(ROOT, "deploy/models/nano")
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
BIN = ""
HI = [{"role": "user", "content": "Hi"}]


class Dialects(unittest.TestCase):
    """One cluster whose model has two names and fixed sampling parameters, as Kimi's vendors serve theirs."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, TRAINED, coordinator_flags=[
            "--served-model-name", "one,two", "--max-model-len", "2048", "--chat-template", os.path.join(TRAINED, "chat_template.jinja"),
            "--lock-sampling", "thinking:temperature=1.0,instant:temperature=0.6,top_p=0.95..1"])
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def refused(self, path, body):
        limited = {} if any(name.startswith("max_") for name in body) else {"max_output_tokens" if path == RESPONSES else "max_tokens": 4}
        return self.cluster.post(path, {**limited, **body}, expect=400)["error"]

    def test_an_answer_has_the_name_that_was_asked_for(self):
        _, _, models = self.cluster.request("GET", "/v1/models")
        for name in ("one", "two"):
            self.assertIn(f'"id":"{name}"', models)
            self.assertEqual(self.cluster.post(CHAT, {"model": name, "messages": HI, "max_tokens": 2})["model"], name)
        self.assertEqual(self.cluster.post(CHAT, {"messages": HI, "max_tokens": 2})["model"], "one")
        self.cluster.post("/tokenize", {"model": "three", "messages": HI}, expect=404)
        self.assertEqual(self.cluster.post(CHAT, {"model": "three", "messages": HI}, expect=404)["error"]["param"], "model")

    def test_errors_name_the_place_in_every_dialect(self):
        tool = {"type": "function", "function": {"name": "f"}}
        for path, body, place in (
                (CHAT, {"messages": HI, "tools": [tool, {"type": "web_search"}]}, "tools[1].type"),
                (CHAT, {"messages": HI, "tools": [tool, tool]}, "tools[1].function.name"),
                (CHAT, {"messages": HI, "tools": [], "tool_choice": "required"}, "tool_choice"),
                (CHAT, {"messages": HI + [{"role": "tool", "tool_call_id": "x", "content": "1"}]}, "messages[1].tool_call_id"),
                (CHAT, {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
                (CHAT, {"messages": HI, "stop": ["a", 1]}, "stop[1]"),
                (CHAT, {"messages": HI, "stream_options": {"include_usage": True}}, "stream_options"),
                (CHAT, {"messages": HI, "response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "response_format.json_schema.name"),
                (CHAT, {"messages": HI, "thinking": {"type": "enabled"}, "enable_thinking": False}, "enable_thinking"),
                (CHAT, {"messages": HI, "chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
                (CHAT, {"messages": HI, "structured_outputs": {}}, "structured_outputs"),
                (CHAT, {"messages": HI, "structured_outputs": {"jsn": {}}}, "structured_outputs.jsn"),
                (CHAT, {"messages": HI, "min_tokens": 5}, "min_tokens"),
                (CHAT, {"messages": HI, "max_output_tokens": 5}, "max_output_tokens"),
                (CHAT, {"messages": HI, "best_of": 2, "stream": True}, "best_of"),
                (RESPONSES, {"input": "x", "max_tokens": 5}, "max_tokens"),
                ("/generate", {"text": "x", "sampling_params": {"max_tokens": 5}}, "sampling_params.max_tokens"),
                ("/apply-template", {"messages": HI, "chat_template": "x"}, "chat_template"),
                (TEXT, {"prompt": ["a", None]}, "prompt[1]"),
                (RESPONSES, {"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
                (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c", "output": "1"}]}, "input[0].call_id")):
            with self.subTest(place):
                self.assertEqual(self.refused(path, body)["param"], place)
        result = {"type": "tool_result", "tool_use_id": "x", "content": "1"}
        self.assertIn("messages[0].content[0].tool_use_id", self.refused(MESSAGES, {"messages": [{"role": "user", "content": [result]}]})["message"])

    def test_routes_of_other_servers_say_what_to_use(self):
        for path, words in {"/v1/embeddings": "has no embeddings", "/rerank": "does not score", "/v1/audio/speech": "neither speech",
                            "/v1/images/generations": "generates no images", "/api/chat": "use POST /v1/chat/completions",
                            "/api/tags": "GET /v1/models", "/nowhere": "GET /openapi.json lists"}.items():
            with self.subTest(path):
                error = self.cluster.post(path, {}, expect=404)["error"]
                self.assertEqual((error["code"], error["param"]), ("not_found", None))
                self.assertIn(words, error["message"])

    def test_a_prompt_that_is_too_long_is_told_in_known_words(self):
        long = [{"role": "user", "content": "7 " * 3000}]
        error = self.refused(CHAT, {"messages": long})
        self.assertRegex(error["message"], r"^This model's maximum context length is 2048 tokens\. However, you requested \d+ tokens")
        self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", "messages"))
        self.assertRegex(self.refused(MESSAGES, {"messages": long})["message"], r"^prompt is too long: \d+ tokens > 2047 maximum")
        self.assertEqual(self.refused(RESPONSES, {"input": "7 " * 3000})["param"], "input")

    def test_each_mode_has_its_own_temperature(self):
        instant = {"thinking": {"type": "disabled"}}
        for extra, temperature in (({}, 1.0), (instant, 0.6), ({"reasoning_effort": "none"}, 0.6)):
            asked = {"messages": HI, "max_tokens": 2, **extra}
            self.cluster.post(CHAT, asked)
            self.cluster.post(CHAT, {**asked, "temperature": temperature})
            for other in (0, 0.6 if temperature == 1.0 else 1.0, 1.01):
                self.assertEqual(self.refused(CHAT, {**asked, "temperature": other})["param"], "temperature")
        self.assertEqual(self.cluster.post(RESPONSES, {"input": "Hi", "max_output_tokens": 2})["temperature"], 1.0)
        self.cluster.post(TEXT, {"prompt": "a", "temperature": 0.3, "top_p": 0.97, "max_tokens": 2})
        self.assertEqual(self.refused(TEXT, {"prompt": "a", "top_p": 0.9})["param"], "top_p")

    def test_the_role_comes_first_and_alone(self):
        events = self.cluster.stream(CHAT, {"messages": HI, "max_tokens": 8, "logprobs": True})
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertNotIn("role", events[1]["choices"][0]["delta"])
        self.assertEqual(len({event["system_fingerprint"] for event in events}), 1)

    def test_logprobs_of_the_content_are_its_tokens(self):
        choice = self.cluster.post(CHAT, {"messages": [{"role": "user", "content": "What is 20 + 22?"}], "logprobs": True, "seed": 9223372036854775807,
                                          "max_tokens": 400.0})["choices"][0]
        said = "".join(token["token"] for token in choice["logprobs"]["content"])
        self.assertEqual(said, choice["message"]["content"])
        self.assertTrue(said)
        self.assertIn(choice["message"]["reasoning_content"], "".join(token["token"] for token in choice["logprobs"]["reasoning_content"]))

    def test_prompts_are_rendered_and_counted(self):
        prompt = self.cluster.post("/apply-template", {"messages": HI})["prompt"]
        self.assertIn("Hi", prompt)
        tokens = self.cluster.post("/tokenize", {"messages": HI})["count"]
        self.assertEqual(self.cluster.post("/v1/responses/input_tokens", {"input": "Hi"})["input_tokens"], tokens)

    def test_anthropics_messages_think_where_they_ask_for_it(self):
        asked = {"messages": [{"role": "user", "content": "What is 20 + 22?"}], "max_tokens": 400, "top_p": 1}
        kinds = lambda **more: [block["type"] for block in self.cluster.post(MESSAGES, {**asked, **more})["content"]]
        for more in ({}, {"thinking": {"type": "disabled"}}, {"output_config": {"effort": "low"}}):
            self.assertEqual(kinds(**more), ["text"], more)
        for more in ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"thinking": {"type": "adaptive"}}):
            self.assertEqual(kinds(**more), ["thinking", "text"], more)
        _, _, text = self.cluster.request("POST", MESSAGES, {**asked, "stream": True})
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertEqual([event["content_block"]["type"] for event in events if event["type"] == "content_block_start"], ["text"])

    def test_reasoning_is_where_it_was_asked_for(self):
        asked = {"messages": [{"role": "user", "content": "What is 20 + 22?"}], "max_tokens": 400, "seed": 5}
        apart = self.cluster.post(CHAT, asked)["choices"][0]["message"]
        for more in ({"separate_reasoning": False}, {"reasoning_format": "none"}):
            within = self.cluster.post(CHAT, {**asked, **more})["choices"][0]["message"]
            self.assertNotIn("reasoning_content", within)
            self.assertIn(f"{apart['reasoning_content']}</think>", within["content"])
            self.assertTrue(within["content"].endswith(apart["content"]), within)
            streamed = "".join(event["choices"][0]["delta"].get("content", "") for event in self.cluster.stream(CHAT, {**asked, **more}))
            self.assertEqual(streamed, within["content"])

    def test_the_oldest_messages_go_where_they_may(self):
        items = [{"role": "user", "content": f"Remember {i}: " + "7 " * 300} for i in range(12)] + [{"role": "user", "content": "What is 20 + 22?"}]
        self.assertEqual(self.refused(RESPONSES, {"input": items, "max_output_tokens": 300})["code"], "context_length_exceeded")
        answer = self.cluster.post(RESPONSES, {"input": items, "max_output_tokens": 300, "truncation": "auto"})
        self.assertGreater(answer["usage"]["input_tokens"], 1000)
        self.assertLess(answer["usage"]["input_tokens"], 2048 - 300)
        self.assertEqual(answer["truncation"], "auto")

    def test_prompts_may_be_written_with_control_tokens(self):
        prompt = self.cluster.post("/apply-template", {"messages": HI})["prompt"]
        tokens = self.cluster.post("/tokenize", {"messages": HI})["tokens"]
        self.assertEqual(self.cluster.post("/tokenize", {"prompt": prompt})["tokens"], tokens)
        self.assertEqual(self.cluster.post(TEXT, {"prompt": prompt, "max_tokens": 1})["usage"]["prompt_tokens"], len(tokens))

    def test_sglangs_own_requests(self):
        alone = self.cluster.post("/generate", {"text": "Hi", "sampling_params": {"max_new_tokens": 0}})
        self.assertEqual((alone["text"], alone["output_ids"]), ("", []))
        self.assertEqual((alone["meta_info"]["completion_tokens"], alone["meta_info"]["finish_reason"]), (0, {"type": "length", "length": 0}))
        params = {"max_new_tokens": 3, "ignore_eos": True, "temperature": 1.0}
        answers = self.cluster.post("/generate", {"text": ["a", "b"], "sampling_params": [params, params], "return_logprob": [True, True]})
        self.assertEqual([len(answer["output_ids"]) for answer in answers], [3, 3])
        # A fixed parameter is fixed in lists, too.
        self.assertEqual(self.refused("/generate", {"text": ["a", "b"], "sampling_params": [{"top_p": 0.5}] * 2})["param"], "top_p")
        self.assertEqual(self.refused("/generate", {"text": ["a", "b"], "sampling_params": [params, {}]})["param"], "sampling_params")

    def test_at_its_deadline_a_request_gets_what_there_is(self):
        seconds = 0.02
        body = {"prompt": "Count.", "max_tokens": 2000, "ignore_eos": True}
        status = 504
        while status == 504:  # no token was generated yet
            seconds *= 1.5
            status, _, text = self.cluster.request("POST", TEXT, {**body, "timeout": seconds})
        self.assertEqual(status, 200, text)
        self.assertIn('"finish_reason":"length","stop_reason":"timeout"', text)
        self.assertNotIn('"completion_tokens":0', text)
