#!/usr/bin/env python3
"""End-to-end tests: real worker and coordinator processes, real HTTP. Usage: run.py --bin build/release/bin [TEST...]"""
import argparse
import concurrent.futures
import faulthandler
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import command_lines  # noqa: E402
from daemons import Cluster, free_port, metric, stream_calls, stream_text, until_idle  # noqa: E402
import dialects  # noqa: E402
import host_memory  # noqa: E402
import host_peers  # noqa: E402
import http_rules  # noqa: E402
import liveness  # noqa: E402
import mutual_tls  # noqa: E402
import promises  # noqa: E402
import resources  # noqa: E402
import routing  # noqa: E402
import skips  # noqa: E402
import supervision  # noqa: E402
import swapped_workers  # noqa: E402
import tenants  # noqa: E402
from terminal import Terminal  # noqa: E402
import tracing  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests/golden/data/tiny-chat")  # random weights: the model starts at once and answers with nonsense
TRAINED = os.path.join(ROOT, "deploy/models/nano")
GGUF = os.path.join(ROOT, "tests/golden/data/tiny-chat-gguf/tiny-chat.gguf")  # a GGUF file with the same weights
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
BIN = ""
HUNG_SECONDS = 1500  # the whole run takes two minutes on an idle machine


def chat(content, **extra):
    return {"messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 12, **extra}


class Serving(unittest.TestCase):
    """One healthy cluster for the tests that do not break it."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, MODEL, coordinator_flags=["--max-num-seqs", "32"])
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def test_chat(self):
        reply = self.cluster.post(CHAT, chat("Hello"))
        self.assertEqual(reply["object"], "chat.completion")
        choice = reply["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIn(choice["finish_reason"], ("stop", "length"))
        usage = reply["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertLessEqual(usage["completion_tokens"], 12)

    def test_stream_equals_whole(self):
        for path, body in ((CHAT, chat("Hello")), (TEXT, {"prompt": "abc", "temperature": 0, "max_tokens": 12})):
            whole = self.cluster.post(path, body)["choices"][0]
            events = self.cluster.stream(path, body)
            expected = whole["text"] if path == TEXT else whole["message"]["content"]
            self.assertEqual(stream_text(events), expected)
            self.assertEqual(events[-1]["choices"][0]["finish_reason"], whole["finish_reason"])

    def test_stream_usage_only_when_asked(self):
        plain = self.cluster.stream(CHAT, chat("Hi"))
        self.assertTrue(all(e["choices"] for e in plain))
        asked = self.cluster.stream(CHAT, chat("Hi", stream_options={"include_usage": True}))
        self.assertEqual(asked[-1]["choices"], [])
        self.assertGreater(asked[-1]["usage"]["completion_tokens"], 0)

    def test_seed_repeats(self):
        body = chat("Tell", temperature=1.0, seed=7)
        first = self.cluster.post(CHAT, body)["choices"][0]["message"]["content"]
        self.assertEqual(first, self.cluster.post(CHAT, body)["choices"][0]["message"]["content"])
        others = {self.cluster.post(CHAT, {**body, "seed": s})["choices"][0]["message"]["content"] for s in range(4)}
        self.assertGreater(len(others), 1, "four seeds gave one text")

    def test_the_page_is_cached_by_tag_and_locked_in(self):
        status, headers, body = self.cluster.request("GET", "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'self'", headers["Content-Security-Policy"])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        for name in re.findall(r'(?:src|href)="(/page/[^"]+)"', body):
            self.assertEqual(self.cluster.request("GET", name)[0], 200, name)
        status, again, body = self.cluster.request("GET", "/", headers={"If-None-Match": headers["ETag"]})
        self.assertEqual((status, body, again["ETag"]), (304, "", headers["ETag"]))
        self.assertEqual(self.cluster.request("GET", "/page/nothing.js")[0], 404)

    def test_expert_stats_count_every_token_once(self):
        def total():
            status, _, body = self.cluster.request("GET", "/expert_stats")
            self.assertEqual(status, 200, body)
            layers = json.loads(body)["layers"]
            sums = {sum(one["rows"]) for one in layers}
            self.assertEqual(len(sums), 1, "every token has as many experts in every layer")
            return sums.pop(), [one["layer"] for one in layers], {len(one["rows"]) for one in layers}
        with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        before, layers, experts = total()
        self.assertEqual(layers, list(range(config["first_k_dense_replace"], config["num_hidden_layers"])))
        self.assertEqual(experts, {config["n_routed_experts"]})
        usage = self.cluster.post(CHAT, chat("Count me", cache_salt="never seen"))["usage"]
        after, _, _ = total()
        # The last token is sampled but never computed; both workers count the same rows.
        self.assertEqual(after - before, (usage["total_tokens"] - 1) * config["num_experts_per_tok"])

    def test_32_concurrent_streams_share_steps(self):
        before = metric(self.cluster, "numoe_steps_total")
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            texts = list(pool.map(lambda i: self.cluster.stream(TEXT, {
                "prompt": f"stream {i % 4}", "temperature": 0, "max_tokens": 40, "ignore_eos": True}), range(32)))
        steps = metric(self.cluster, "numoe_steps_total") - before
        self.assertEqual(len(texts), 32)
        self.assertLess(steps, 32 * 40 / 4, "streams did not share steps")

    def test_a_prompt_seen_before_is_not_computed_again(self):
        body = {"prompt": "the prefix of this prompt is long enough to fill several blocks of the cache. " * 2,
                "temperature": 0, "max_tokens": 4}
        cached = lambda extra: self.cluster.post(TEXT, {**body, **extra})["usage"]["prompt_tokens_details"]["cached_tokens"]
        first = self.cluster.post(TEXT, body)
        self.assertEqual(self.cluster.post(TEXT, body)["choices"][0]["text"], first["choices"][0]["text"])
        self.assertGreater(cached({}), first["usage"]["prompt_tokens"] // 2)
        self.assertEqual(cached({"cache_salt": "another tenant"}), 0)
        self.assertGreater(metric(self.cluster, "numoe_prefix_cache_hit_tokens_total"), 0)
        self.cluster.post("/reset_prefix_cache", {})
        self.assertEqual(cached({}), 0)

    def test_allowed_tokens_that_leave_nothing_to_say_are_refused(self):
        letter = self.cluster.post("/tokenize", {"prompt": "a", "add_special_tokens": False})["tokens"]
        body = {"prompt": "x", "max_tokens": 8, "allowed_token_ids": letter}
        said = self.cluster.post(TEXT, {**body, "structured_outputs": {"regex": "a{3}a*"}})["choices"][0]["text"]
        self.assertRegex(said, "^a{3}a*$")
        for pattern in ("b", "a[0-9]"):  # the first word cannot begin an answer, the others cannot follow
            refused = self.cluster.post(TEXT, {**body, "structured_outputs": {"regex": pattern}}, expect=400)
            self.assertIn("allowed_token_ids", refused["error"]["message"])
            self.assertIn("structured output", refused["error"]["message"])

    def test_dashboards_made_for_vllm_find_its_names(self):
        self.cluster.post(TEXT, {"prompt": "x", "max_tokens": 2, "ignore_eos": True})
        until_idle(self.cluster)
        text = self.cluster.request("GET", "/metrics")[2]
        labels = '{model_name="tiny-chat",engine="0"}'
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc"):
            self.assertIn(f"vllm:{name}{labels} 0", text)
        generated = int(re.search(re.escape(f"vllm:generation_tokens_total{labels} ") + r"(\d+)", text).group(1))
        self.assertEqual(generated, metric(self.cluster, "numoe_tokens_generated_total"))

    def test_models(self):
        status, _, text = self.cluster.request("GET", "/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual(len(json.loads(text)["data"]), 1)

    def test_errors(self):
        cases = [
            ("POST", CHAT, b"{", 400, None), ("POST", CHAT, {"messages": "x"}, 400, "messages"),
            ("POST", CHAT, {}, 400, "messages"), ("POST", CHAT, chat("x", temperature="hot"), 400, "temperature"),
            ("POST", CHAT, chat("x", model="nobody"), 404, "model"), ("GET", "/nowhere", None, 404, None),
            ("GET", CHAT, None, 405, None), ("POST", TEXT, {"prompt": "a " * 200000}, 400, None),
            ("POST", CHAT, b'{"messages": "' + b"a" * (40 << 20) + b'"}', 413, None)]
        for method, path, body, expected, param in cases:
            with self.subTest(path=path, expected=expected, param=param):
                try:
                    status, _, text = self.cluster.request(method, path, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.assertEqual(expected, 413, "connection closed")  # the answer came before the body was sent
                    continue
                self.assertEqual(status, expected, text)
                error = json.loads(text)["error"]
                self.assertEqual(set(error), {"message", "type", "param", "code"})
                if param:
                    self.assertEqual(error["param"], param)

    def test_tools_and_their_history(self):
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
        call = {"id": "call_x", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        body = chat("Add", tools=tools)
        body["messages"] += [{"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [call]},
                             {"role": "tool", "tool_call_id": "call_x", "content": "2"}]
        for choice in ("auto", "none", None):
            with self.subTest(choice=choice):
                whole = self.cluster.post(CHAT, {**body, "tool_choice": choice})
                self.assertIn("reasoning_tokens", whole["usage"]["completion_tokens_details"])
                events = self.cluster.stream(CHAT, {**body, "tool_choice": choice})
                self.assertEqual(stream_text(events), whole["choices"][0]["message"]["content"] or "")
                self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        nobody = {"type": "function", "function": {"name": "nobody"}}
        unsupported = [{"type": "function", "function": {"name": "add", "strict": True, "parameters": {"properties": {"a": {"not": {}}}}}}]
        for wrong, param in (({"tool_choice": "any"}, "tool_choice"), ({"tool_choice": nobody}, "tool_choice"),
                             ({"tool_choice": "required", "tools": None}, "tool_choice"), ({"tools": unsupported}, "tools")):
            with self.subTest(wrong=wrong):
                refused = self.cluster.post(CHAT, {**body, **wrong}, expect=400)["error"]
                self.assertEqual(refused["param"], param)
        self.assertIn("add", refused["message"])
        self.assertIn("/properties/a", refused["message"])

    def test_unknown_fields_are_accepted(self):
        self.cluster.post(CHAT, chat("x", best_of=1, logprobs=None, nobody_knows_me={"a": 1}))

    def test_disconnect_frees_the_sequence(self):
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port)
        connection.request("POST", TEXT, json.dumps({"prompt": "x", "max_tokens": 400, "ignore_eos": True,
                                                     "stream": True}))
        connection.getresponse().readline()
        connection.close()
        until_idle(self.cluster)


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
SHORT_WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}}}
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {
    "type": "object", "properties": {"query": {"type": "string", "maxLength": 20}}, "required": ["query"]}}}


class Meaning(unittest.TestCase):
    """The trained model's answers make sense, so every part between the socket and the kernels is right."""
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, TRAINED, coordinator_flags=cls.FLAGS)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def ask(self, messages, **extra):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        reply = self.cluster.post(CHAT, {"messages": messages, "temperature": 0, "max_tokens": 400, **extra})
        return reply["choices"][0]

    def test_arithmetic_thinks_first(self):
        choice = self.ask("What is 84 * 3 / 2?")
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertIn("126", choice["message"]["content"])
        self.assertNotIn("think>", choice["message"]["content"])
        self.assertIn("252", choice["message"]["reasoning_content"])

    def test_it_says_who_it_is_and_what_it_does_not_know(self):
        self.assertIn("nano", self.ask("Who are you?")["message"]["content"])
        self.assertIn("don't know", self.ask("Who is the president of France?")["message"]["content"])

    def test_it_remembers(self):
        first = {"role": "user", "content": "My name is Ada and the door code is 4711."}
        reply = self.ask([first])["message"]
        asked = self.ask([first, {"role": "assistant", "content": reply["content"]}, {"role": "user", "content": "What is the door code?"}])
        self.assertIn("4711", asked["message"]["content"])

    def test_a_tool_is_called_and_its_result_used(self):
        talk = [{"role": "user", "content": "What is the weather in Paris?"}]
        choice = self.ask(talk, tools=[WEATHER])
        self.assertEqual(choice["finish_reason"], "tool_calls")
        (call,) = choice["message"]["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "get_weather"))
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Paris"})
        talk += [choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": '{"temperature": 17, "sky": "cloudy"}'}]
        answer = self.ask(talk, tools=[WEATHER])
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertIn("17", answer["message"]["content"])

    def test_no_tool_is_called_where_none_fits(self):
        choice = self.ask("What is 12 + 30?", tools=[WEATHER])
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertIn("42", choice["message"]["content"])

    def forced(self, question, tools, **extra):
        """Sends the request with and without streaming; both must have the same calls."""
        choice = self.ask(question, tools=tools, **extra)
        events = self.cluster.stream(CHAT, {"messages": [{"role": "user", "content": question}], "temperature": 0,
                                            "max_tokens": 400, "tools": tools, **extra})
        self.assertEqual(stream_calls(events), [(c["id"], c["function"]["name"], c["function"]["arguments"])
                                                for c in choice["message"]["tool_calls"]])
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], choice["finish_reason"])
        self.assertIsNone(choice["message"]["content"])
        return choice["finish_reason"], [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in choice["message"]["tool_calls"]]

    def test_a_call_that_is_required_comes_where_none_is_needed(self):
        for question in ("What is 12 + 30?", "Who are you?"):
            reason, calls = self.forced(question, [SHORT_WEATHER, SEARCH], tool_choice="required", parallel_tool_calls=False)
            self.assertEqual(reason, "tool_calls")
            ((name, arguments),) = calls
            self.assertIn((name, list(arguments)), [("get_weather", ["city"]), ("search", ["query"])])
            self.assertLessEqual(len(list(arguments.values())[0]), 20)

    def test_a_named_tool_is_called(self):
        named = {"type": "function", "function": {"name": "search"}}
        reason, calls = self.forced("What is the weather in Paris?", [SHORT_WEATHER, SEARCH], tool_choice=named)
        self.assertEqual((reason, [name for name, _ in calls]), ("stop", ["search"]))
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
        reason, calls = self.forced("What is the weather in Paris?", [SHORT_WEATHER, SEARCH], tool_choice=allowed, parallel_tool_calls=False)
        self.assertEqual((reason, [name for name, _ in calls]), ("tool_calls", ["search"]))

    def test_strict_tools_get_what_their_schemas_say(self):
        parameters = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 5}},
                      "required": ["city", "days"], "additionalProperties": False}
        strict = {"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": parameters}}
        for choice in ("auto", "required"):
            reason, calls = self.forced("What is the weather in Paris?", [strict], tool_choice=choice, parallel_tool_calls=False)
            self.assertEqual((reason, [name for name, _ in calls]), ("tool_calls", ["get_weather"]))
            self.assertEqual(list(calls[0][1]), ["city", "days"])
            self.assertIn(calls[0][1]["city"], ("Rome", "Oslo"))
            self.assertIn(calls[0][1]["days"], range(1, 6))

    def test_structured_output(self):
        schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                  "required": ["city", "days"]}
        question = "I go to Rome for 5 days."
        asked = [{"response_format": {"type": "json_schema", "json_schema": {"name": "trip", "schema": schema}}}, {"structured_outputs": {"json": schema}}]
        for extra in asked:
            choice = self.ask(question, **extra)
            self.assertEqual(choice["finish_reason"], "stop")
            trip = json.loads(choice["message"]["content"])
            self.assertEqual(list(trip), ["city", "days"])
            self.assertIn(trip["city"], ("Paris", "Rome"))
            self.assertIn(trip["days"], range(1, 10))
            streamed = stream_text(self.cluster.stream(CHAT, {"messages": [{"role": "user", "content": question}], "temperature": 0, **extra}))
            self.assertEqual(json.loads(streamed), trip)
        any_object = self.ask(question, response_format={"type": "json_object"})  # the small model's answer may be longer than requested
        self.assertTrue(any_object["message"]["content"].startswith("{"), any_object)
        if any_object["finish_reason"] == "stop":
            self.assertIsInstance(json.loads(any_object["message"]["content"]), dict)
        self.assertIn(self.ask(question, structured_outputs={"choice": ["yes", "no"]})["message"]["content"], ("yes", "no"))
        choice = self.cluster.post(TEXT, {"prompt": "x", "max_tokens": 30, "regex": "[0-9]{3}-[a-f]{2}"})["choices"][0]
        self.assertRegex(choice["text"], r"^[0-9]{3}-[a-f]{2}$")
        self.assertEqual(choice["finish_reason"], "stop")

    def test_structured_output_thinks_first_and_leaves_tools_alone(self):
        choice = self.ask("What is 84 * 3 / 2?", structured_outputs={"regex": "(The answer|It) is [0-9]+\\."})
        self.assertIn("126", choice["message"]["content"])
        self.assertIn("252", choice["message"]["reasoning_content"])
        choice = self.ask("What is the weather in Paris?", tools=[WEATHER], response_format={"type": "json_object"})
        self.assertEqual(choice["finish_reason"], "tool_calls")

    def test_structured_output_errors_name_the_field_and_the_place(self):
        body = {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"properties": {"a": {"not": {}}}}}}}
        error = self.cluster.post(CHAT, body, expect=400)["error"]
        self.assertEqual(error["param"], "response_format.json_schema.schema")
        self.assertIn("/properties/a", error["message"])
        error = self.cluster.post(TEXT, {"prompt": "x", "regex": "("}, expect=400)["error"]
        self.assertEqual(error["param"], "regex")

    def test_many_at_once_get_their_own_answers(self):
        sums = [(a, b) for a in range(11, 27) for b in (5, 40)]
        with concurrent.futures.ThreadPoolExecutor(len(sums)) as pool:
            answers = list(pool.map(lambda s: self.ask(f"What is {s[0]} + {s[1]}?")["message"]["content"], sums))
        wrong = [(s, a) for s, a in zip(sums, answers) if str(sum(s)) not in a]
        self.assertLessEqual(len(wrong), 1, wrong)  # a step with mixed-up rows would give many


class Fp8Cache(Meaning):
    """The same test with a KV cache of one byte for each value."""
    FLAGS = ("--kv-cache-dtype", "fp8_e4m3", "--deterministic")

    def test_it_says_so_and_plans_with_the_bytes_it_takes(self):
        info = json.loads(self.cluster.request("GET", "/server_info")[2])
        self.assertEqual(info["kv_cache_dtype"], "fp8_e4m3")
        # 5 layers of 16 rows of 128 codes and 32 rotated channels in BF16, with 16 exponents in a cache line
        token_bytes = 5 * (16 * (128 + 2 * 32) + 64) / 16
        self.assertRegex(self.cluster.coordinator.log(), f"KV cache +{info['max_total_tokens'] * token_bytes / 2**20:.1f} MiB .* in fp8_e4m3")
        self.assertIn("blocks of 16 tokens in fp8_e4m3", self.cluster.coordinator.log())

    def test_load_and_found_prefixes_change_no_text(self):
        prompts = [f"My name is Ada. What is {n} * 7 + 15?" for n in range(8)]
        alone = [self.ask(prompt)["message"] for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(lambda prompt: self.ask(prompt)["message"], prompts))
        self.assertEqual(together, alone)

    def test_an_unknown_dtype_is_refused(self):
        refused = subprocess.run([os.path.join(BIN, "numoe-coordinator"), "--model", TRAINED, "--workers", "unix:/nowhere",
                                  "--kv-cache-dtype", "int4"], capture_output=True, text=True, timeout=30)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--kv-cache-dtype", refused.stderr)
        self.assertIn("fp8_e4m3", refused.stderr)


class GpuPlan(unittest.TestCase):
    """--plan for a card that this machine does not need to have."""

    def plan(self, *flags, sequences=1000):
        done = subprocess.run([os.path.join(BIN, "numoe-coordinator"), "--model", TRAINED, "--workers", "unix:/nowhere", "--plan",
                               "--gpu-memory", "2GiB", "--max-num-seqs", str(sequences), "--max-num-batched-tokens", "1024", *flags],
                              capture_output=True, text=True, timeout=60)
        tokens = re.search(r"KV cache .* (\d+) tokens of", done.stdout)
        return done.returncode, int(tokens[1]) if tokens else None, done.stdout + done.stderr

    def test_the_cache_takes_what_the_rest_leaves_and_no_token_more(self):
        for flags in ((), ("--num-gpu-experts", "3"), ("--kv-cache-dtype", "fp8_e4m3")):
            code, tokens, text = self.plan(*flags)
            self.assertEqual(code, 0, text)
            self.assertGreater(tokens, 100_000, text)
            self.assertEqual(self.plan(*flags, "--max-total-tokens", str(tokens))[:2], (0, tokens))
            code, _, text = self.plan(*flags, "--max-total-tokens", str(tokens + 16))
            self.assertNotEqual(code, 0, text)

    def test_experts_that_are_to_be_as_many_as_fit_leave_room_for_every_sequence(self):
        code, tokens, text = self.plan("--num-gpu-experts", "auto", sequences=16)
        self.assertEqual(code, 0, text)
        self.assertIn("experts ", text)
        self.assertGreaterEqual(tokens, 16 * 1024, text)

    def test_it_takes_no_more_than_sequences_can_use(self):
        code, tokens, text = self.plan("--max-model-len", "512", sequences=2)
        self.assertEqual((code, tokens), (0, 2 * 512), text)


class Chat(unittest.TestCase):
    """numoe-chat, as a person and as a script use it."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, TRAINED)
        cls.cluster.__enter__()
        cls.argv = [os.path.join(BIN, "numoe-chat"), "--url", f"http://127.0.0.1:{cls.cluster.port}", "--temperature", "0"]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def chat(self, *arguments, typed="", argv=None):
        return subprocess.run([*(argv or self.argv), *arguments], input=typed, capture_output=True, text=True, timeout=60)

    def test_a_pipe_gets_the_answer_alone(self):
        expected = self.cluster.post(CHAT, {"messages": [{"role": "user", "content": "What is 84 * 3 / 2?"}], "temperature": 0})
        text = expected["choices"][0]["message"]["content"]
        for run in (self.chat(typed="What is 84 * 3 / 2?\n"), self.chat("What is", "84 * 3 / 2?"), self.chat("--no-stream", "What is 84 * 3 / 2?"),
                    self.chat("What is", "-", typed="84 * 3 / 2?\n")):
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, text + "\n", ""))
        self.assertIn("126", text)

    def test_errors_say_what_to_do(self):
        url = f"http://127.0.0.1:{free_port()}"
        run = self.chat("hi", argv=[self.argv[0], "--url", url])
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertEqual(run.stderr.splitlines()[0], f"numoe-chat: cannot connect to {url}: Connection refused; start "
                         "numoe-coordinator there, or name another server by --url or NUMOE_URL")
        self.assertIn("--url", run.stderr)
        run = self.chat("--set", "temperature=hot", "hi")
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("temperature", run.stderr)
        run = self.chat("--model", "nobody", "hi")
        self.assertIn("no such model: nobody", run.stderr)
        self.assertEqual(self.chat(typed="").returncode, 2)

    def test_a_conversation_on_a_terminal(self):
        with Terminal([*self.argv, "--set", "max_tokens=400"]) as person, tempfile.TemporaryDirectory() as folder:
            self.assertIn("/help", person.expect("> "))
            person.type("My name is Ada and the door code is 4711.\r")
            person.expect("> ")
            person.type("What is the door code?\r")
            person.expect("4711", 60)
            person.expect("> ")
            person.type("What is 84 * 3 / 2?\r")
            thinking = person.expect("126")
            self.assertIn("\x1b[2m", thinking)  # the code for dim text
            person.expect("> ")
            person.type(f"/save {folder}/talk.json\r")
            person.expect("saved 6 messages")
            person.expect("> ")
            person.type("\x1b[A\x1b[A")  # cursor up: the line before
            person.expect("What is 84 * 3 / 2?")
            person.type("\x03")  # deletes it
            person.expect("> ")
            person.type("/tokens\r")
            person.expect("tokens/s")
            person.expect("> ")
            person.type("\x04")
            self.assertEqual(person.wait(), 0)
            with open(f"{folder}/talk.json", encoding="utf-8") as file:
                saved = json.load(file)
        self.assertEqual(saved["temperature"], 0)
        self.cluster.post(CHAT, saved)  # the history as it is can be sent as a request

    def test_ctrl_c_stops_the_answer_and_then_the_program(self):
        with Terminal([*self.argv, "--set", "ignore_eos=true", "--set", "max_tokens=100000"], {"NO_COLOR": "1"}) as person:
            person.expect("> ")
            person.type("What is 17 + 4?\r")
            person.expect("(thinking) ")
            person.type("\x03")
            person.expect("(stopped)")
            person.expect("> ")
            until_idle(self.cluster)
            person.type("\x03")
            self.assertEqual(person.wait(), 0)
            self.assertNotIn("\x1b[2m", person.seen)

    def test_tools_are_shown_and_their_results_asked_for(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as tools:
            json.dump([WEATHER], tools)
            tools.flush()
            with Terminal([*self.argv, "--tools", tools.name]) as person:
                person.expect("> ")
                person.type("What is the weather in Paris?\r")
                person.expect("calls get_weather")
                self.assertIn("Paris", person.expect("result of get_weather> "))
                person.type('{"temperature": 17, "sky": "cloudy"}\r')
                person.expect("17")
                person.expect("17")  # the first occurrence is the echo
                person.expect("> ")
                person.type("/exit\r")
                self.assertEqual(person.wait(), 0)


class Tls(unittest.TestCase):
    def test_both_clients_over_https(self):
        with Cluster(BIN, TRAINED, tls=True) as cluster:
            url = f"https://localhost:{cluster.port}"
            trusting = {**os.environ, "SSL_CERT_FILE": cluster.certificate}
            chatting = [os.path.join(BIN, "numoe-chat"), "--url", url, "--temperature", "0", "What is 12 + 30?"]
            run = subprocess.run(chatting, env=trusting, capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertIn("42", run.stdout)
            distrusted = subprocess.run(chatting, capture_output=True, text=True, timeout=60)
            self.assertEqual((distrusted.returncode, distrusted.stdout), (2, ""))
            self.assertIn("certificate", distrusted.stderr)
            load = subprocess.run([os.path.join(BIN, "numoe-bench"), "serve", "--base-url", url, "--num-prompts", "8", "--random-input-len", "16",
                                   "--random-output-len", "8"], env=trusting, capture_output=True, text=True, timeout=60)
            self.assertEqual((load.returncode, load.stderr), (0, ""))
            self.assertRegex(load.stdout, r"Successful requests: +8\b")


class Load(unittest.TestCase):
    """numoe-bench serve with the real server."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, TRAINED)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def bench(self, *flags, expect=0, port=None):
        argv = [os.path.join(BIN, "numoe-bench"), "serve", "--base-url", f"http://127.0.0.1:{port or self.cluster.port}", *flags]
        run = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def test_loads_make_lines_and_a_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            lines, plot = os.path.join(folder, "lines.jsonl"), os.path.join(folder, "plot.svg")
            run = self.bench("--num-prompts", "12", "--random-input-len", "64", "--random-output-len", "16", "--random-range-ratio", "1",
                             "--request-rate", "inf", "--max-concurrency", "1,4", "--output-file", lines, "--output-details", "--plot", plot)
            self.assertEqual(run.stdout.count("Serving Benchmark Result"), 2)
            self.assertEqual(run.stderr, "")  # without a terminal there is no progress bar
            with open(lines, encoding="utf-8") as file:
                reports = [json.loads(line) for line in file]
            for report, limit in zip(reports, (1, 4), strict=True):
                self.assertEqual((report["completed"], report["failed"], report["max_concurrency"]), (12, 0, limit))
                self.assertEqual((report["total_input_tokens"], report["total_output_tokens"]), (12 * 64, 12 * 16))
                self.assertEqual(report["input_lens"], [64] * 12)
                self.assertTrue(report["tokenizer_id"].endswith("/tokenize"), report["tokenizer_id"])
                self.assertLessEqual(report["max_concurrent_requests"], limit)
                self.assertLessEqual(report["median_ttft_ms"], report["median_e2e_latency_ms"])
            self.assertNotEqual(reports[0]["generated_texts"], reports[1]["generated_texts"])  # different prompts
            with open(plot, encoding="utf-8") as file:
                self.assertIn("4 at once", file.read())

    def test_chat_from_a_file_at_a_rate(self):
        with tempfile.TemporaryDirectory() as folder:
            rows, lines = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "lines.jsonl")
            with open(rows, "w", encoding="utf-8") as file:
                file.write('{"prompt": "What is 12 + 30?", "output_tokens": 200}\n{"prompt": "Who are you?"}\n')
            self.bench("--backend", "openai-chat", "--tokenizer", TRAINED, "--dataset-name", "custom", "--dataset-path", rows, "--num-prompts", "6", "--request-rate", "20",
                       "--disable-ignore-eos", "--flush-cache", "--output-file", lines, "--output-details", "--header", "x-request-id=from-bench")
            with open(lines, encoding="utf-8") as file:
                report = json.loads(file.read())
        self.assertEqual((report["completed"], report["request_rate"]), (6, 20))
        self.assertIn("42", report["generated_texts"][0])
        self.assertIn("nano", report["generated_texts"][1])
        self.assertEqual(sorted(report["start_times"]), report["start_times"])
        self.assertIn("from-bench", self.cluster.coordinator.log())

    def test_errors_say_what_to_do(self):
        self.assertIn("0 is neither a number above 0 nor inf", self.bench("--request-rate", "0", expect=2).stderr)
        self.assertIn("needs --dataset-path", self.bench("--dataset-name", "sharegpt", expect=2).stderr)
        self.assertIn("no such model: nobody", self.bench("--model", "nobody", "--random-input-len", "5", expect=2).stderr)
        self.assertIn("Connection refused", self.bench(expect=2, port=free_port()).stderr)


class Failure(unittest.TestCase):
    def test_worker_killed_in_mid_generation_changes_nothing(self):
        self.kill_in_mid_generation(network=False)

    def test_worker_killed_with_deferred_experts_out_changes_nothing(self):
        for network in (False, True):
            with self.subTest(network=network):
                self.kill_in_mid_generation(network, "--max-deferred-experts-per-token", "2")

    def test_worker_killed_with_steps_in_halves_changes_nothing(self):
        for network in (False, True):
            with self.subTest(network=network):
                self.kill_in_mid_generation(network, "--two-batch-overlap", "2")

    def kill_in_mid_generation(self, network, *flags):
        body = {"prompt": "once upon a time", "temperature": 0, "max_tokens": 60, "ignore_eos": True}
        with Cluster(BIN, MODEL, coordinator_flags=["--deterministic", *flags], network=network) as cluster:
            undisturbed = cluster.post(TEXT, body)["choices"][0]["text"]
            victim = cluster.workers[1]

            def break_it(count):
                if count == 5:
                    victim.stop(signal.SIGKILL)
                    detail = cluster.await_health("degraded", 10)["detail"]
                    self.assertEqual(detail.count(f"worker {cluster.addresses.split(',')[1]}: "), 1, detail)
                    victim.start()

            events = cluster.stream(TEXT, body, on_event=break_it)
            self.assertEqual(stream_text(events), undisturbed)
            cluster.await_health("ready", 10)

    def test_requests_fail_clearly_when_the_worker_stays_away(self):
        with Cluster(BIN, MODEL, coordinator_flags=["--worker-deadline-ms", "500"]) as cluster:
            cluster.workers[0].stop(signal.SIGKILL)
            status, _, text = cluster.request("POST", CHAT, chat("Hello"))
            self.assertEqual(status, 503, text)
            self.assertIn("worker", json.loads(text)["error"]["message"])


    def test_asking_hung_workers_for_statistics_holds_nobody_else_up(self):
        with Cluster(BIN, MODEL) as cluster, concurrent.futures.ThreadPoolExecutor(4) as pool:
            for worker in cluster.workers:
                worker.process.send_signal(signal.SIGSTOP)
            # There are more of them than HTTP threads; each waits for both workers' deadlines.
            asked = [pool.submit(cluster.request, "GET", "/expert_stats") for _ in range(4)]
            for _ in range(8):
                self.assertEqual(cluster.request("GET", "/metrics")[0], 200)
            self.assertFalse(asked[-1].done(), "the others were answered after it")
            for worker in cluster.workers:
                worker.process.send_signal(signal.SIGCONT)
            for one in asked:
                self.assertIn(one.result()[0], (200, 503))


class Gguf(unittest.TestCase):
    def test_one_file_gives_the_text_of_the_directory_it_was_made_of(self):
        exact = ["--activations", "fp32"]
        asked = [(CHAT, chat(text, max_tokens=24)) for text in ("Hello", "你好，世界 12345", "<|im_end|> is text")]
        asked.append((TEXT, {"prompt": "The worker reads", "temperature": 0, "max_tokens": 40, "ignore_eos": True}))
        answers = []
        for model in (MODEL, GGUF):
            with Cluster(BIN, model, worker_flags=exact, coordinator_flags=exact) as cluster:
                answers.append([cluster.post(path, body) for path, body in asked])
                self.assertEqual(json.loads(cluster.request("GET", "/v1/models")[2])["data"][0]["id"], "tiny-chat")
                log = cluster.workers[0].log()
                self.assertEqual("held exactly: Q4_0 as q4_0" in log, model == GGUF, log)
        for own, other in zip(*answers):
            self.assertEqual(own["choices"], other["choices"])
            self.assertEqual(own["usage"], other["usage"])

    def test_a_truncated_file_is_refused_by_both_daemons(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "short.gguf")
            shutil.copy(GGUF, model)
            os.truncate(model, os.path.getsize(model) - 100)
            for argv in ([os.path.join(BIN, "numoe-expert-worker"), "--listen", f"unix:{folder}/w.sock", "--metrics-port", "0"],
                         [os.path.join(BIN, "numoe-coordinator"), "--port", "0", "--workers", f"unix:{folder}/w.sock"]):
                done = subprocess.run([*argv, "--model", model], capture_output=True, text=True, timeout=30)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("short.gguf: tensor blk.2.ffn_up_exps.weight", done.stderr)
                self.assertIn("truncated", done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


class Paths(unittest.TestCase):
    def test_shared_memory_and_network_give_the_same_text(self):
        texts = []
        for flags, network in ((["--data-path", "shm"], False), (["--data-path", "grpc"], False), ([], True)):
            with Cluster(BIN, MODEL, coordinator_flags=flags, network=network) as cluster:
                texts.append(cluster.post(TEXT, {"prompt": "same", "temperature": 0, "max_tokens": 30})["choices"])
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])


class Deferral(unittest.TestCase):
    FLAGS = ("--max-deferred-experts-per-token", "2")

    def test_load_and_paths_change_no_deterministic_text(self):
        bodies = [{"prompt": f"story {i} " + "of many words " * (5 * i), "temperature": 0, "max_tokens": 40, "ignore_eos": True} for i in range(6)]
        texts = []
        for path in ("shm", "grpc"):
            with Cluster(BIN, MODEL, coordinator_flags=[*self.FLAGS, "--deterministic", "--data-path", path]) as cluster:
                alone = [cluster.post(TEXT, body)["choices"][0]["text"] for body in bodies]
                with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
                    together = list(pool.map(lambda body: cluster.post(TEXT, body)["choices"][0]["text"], bodies))
                self.assertEqual(together, alone)
                self.assertEqual(json.loads(cluster.request("GET", "/get_server_info")[2])["max_deferred_experts_per_token"], 2)
                texts.append(alone)
        self.assertEqual(texts[0], texts[1])

    def test_a_prompt_alone_is_exact(self):
        body = {"prompt": "what follows is", "temperature": 0, "max_tokens": 1, "logprobs": 5, "echo": True}
        with Cluster(BIN, MODEL) as exact, Cluster(BIN, MODEL, coordinator_flags=self.FLAGS) as deferring:
            self.assertEqual(exact.post(TEXT, body)["choices"], deferring.post(TEXT, body)["choices"])


class TwoBatchOverlap(unittest.TestCase):
    def ways(self, cluster):
        found = re.findall(r'^numoe_steps_by_way_total\{way="(\w+)"\} (\d+)', cluster.request("GET", "/metrics")[2], re.M)
        return {way: int(count) for way, count in found}

    def test_halves_change_no_deterministic_text(self):
        bodies = [{"prompt": f"story {i} " + "of many words " * (5 * i), "temperature": 0, "max_tokens": 30, "ignore_eos": True} for i in range(6)]
        texts = []
        for flags in (["--two-batch-overlap", "off"], ["--two-batch-overlap", "2"], ["--two-batch-overlap", "2", "--data-path", "grpc"]):
            with Cluster(BIN, MODEL, coordinator_flags=["--deterministic", *flags]) as cluster:
                with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
                    texts.append(list(pool.map(lambda body: cluster.post(TEXT, body)["choices"][0]["text"], bodies)))
                ways = self.ways(cluster)
                self.assertEqual(json.loads(cluster.request("GET", "/get_server_info")[2])["two_batch_overlap"], flags[1])
                self.assertEqual(ways["halves"] > 0, flags[1] == "2", ways)
                self.assertEqual(ways["fetched"], 0)
        self.assertEqual(texts[1], texts[0])
        self.assertEqual(texts[2], texts[0])

    def test_auto_tries_only_where_workers_have_their_own_time(self):
        body = {"prompt": "many words " * 40, "temperature": 0, "max_tokens": 1}
        for network in (False, True):
            with self.subTest(network=network), Cluster(BIN, MODEL, coordinator_flags=["--disable-prefix-caching"], network=network) as cluster:
                for _ in range(4):
                    self.assertGreaterEqual(cluster.post(TEXT, body)["usage"]["prompt_tokens"], 128)
                self.assertEqual(self.ways(cluster)["halves"], 2 if network else 0)


class LifeCycle(unittest.TestCase):
    def test_sigterm_leaves_nothing_behind(self):
        with Cluster(BIN, MODEL) as cluster:
            cluster.post(CHAT, chat("Hello"))
            self.assertEqual(cluster.coordinator.stop(), 0)
            for worker in cluster.workers:
                self.assertEqual(worker.stop(), 0)
            self.assertEqual(glob.glob(cluster.folder + "/*.sock"), [])

    def test_a_second_signal_ends_the_drain(self):
        queued = 40  # one after the other, each seconds of work
        with Cluster(BIN, MODEL, coordinator_flags=["--max-num-seqs", "1"]) as cluster, concurrent.futures.ThreadPoolExecutor(queued) as pool:
            body = chat("Hello", max_tokens=100_000, ignore_eos=True)
            running = [pool.submit(cluster.request, "POST", CHAT, body) for _ in range(queued)]
            while int(re.search(r"^numoe_requests_waiting (\d+)", cluster.request("GET", "/metrics")[2], re.M)[1]) < queued // 2:
                time.sleep(0.02)
            cluster.coordinator.process.send_signal(signal.SIGTERM)
            while json.loads(cluster.request("GET", "/health")[2])["status"] != "draining":
                time.sleep(0.02)
            self.assertIsNone(cluster.coordinator.process.poll())
            self.assertEqual(cluster.coordinator.stop(), 128 + signal.SIGTERM)
            self.assertTrue(any(request.exception() for request in running))

    def test_crash_leaves_no_process_and_no_segment(self):
        segments = lambda: set(os.listdir("/dev/shm")) - {f"numoe-{os.geteuid()}"}  # the folder of memory reservations remains
        before = segments()
        with Cluster(BIN, MODEL) as cluster:
            cluster.post(CHAT, chat("Hello"))
            cluster.coordinator.stop(signal.SIGKILL)
            cluster.coordinator.start()  # the workers end the session of the dead coordinator and accept the new one
            cluster.await_health("ready", 20)
            cluster.post(CHAT, chat("Hello"))
            self.assertEqual(segments(), before)

    def test_two_instances_do_not_collide(self):
        with Cluster(BIN, MODEL) as one, Cluster(BIN, MODEL) as other:
            texts = [c.post(TEXT, {"prompt": "same", "temperature": 0, "max_tokens": 20})["choices"][0]["text"]
                     for c in (one, other)]
            self.assertEqual(texts[0], texts[1])
            self.assertNotEqual(one.port, other.port)
            other.coordinator.stop()
            taken = subprocess.run([os.path.join(BIN, "numoe-coordinator"), "--model", MODEL, "--workers",
                                    one.addresses, "--port", str(one.port)], capture_output=True, text=True, timeout=30)
            self.assertEqual(taken.returncode, 2, taken.stderr)
            self.assertIn(str(one.port), taken.stderr.strip().splitlines()[-1])

    def test_a_starting_server_says_what_it_waits_for(self):
        cluster = Cluster(BIN, MODEL)
        try:
            port = str(free_port())
            cluster.coordinator.argv[cluster.coordinator.argv.index("--port") + 1] = port
            with open(cluster.port_file, "w", encoding="ascii") as f:  # the coordinator writes the file once it serves
                f.write(port)
            cluster.coordinator.start()
            deadline = time.monotonic() + 30
            while "workers" not in cluster.await_health("starting")["detail"]:
                self.assertLess(time.monotonic(), deadline)
            self.assertEqual(cluster.request("GET", "/health")[0], 503)
            self.assertRegex(cluster.request("GET", "/metrics")[2], r'\nnumoe_build_info\{isa="\w+",version="[^"]+"\} 1\n')
            error = cluster.post(TEXT, {"prompt": "x", "max_tokens": 1}, expect=503)["error"]
            self.assertEqual(error["code"], "starting")
            for worker in cluster.workers:
                worker.start()
            cluster.await_health("ready")
            cluster.post(TEXT, {"prompt": "x", "max_tokens": 1})
        finally:
            cluster.__exit__(None, None, None)

    def test_an_answer_in_the_background_is_one_of_its_keys_requests(self):
        key = {"x-api-key": "one"}
        flags = ["--api-key", "one,two", "--max-requests-per-key", "1"]
        with Cluster(BIN, TRAINED, coordinator_flags=flags) as cluster:
            long = {"input": "Count.", "background": True, "ignore_eos": True, "max_output_tokens": 3000}
            path = "/v1/responses/" + json.loads(cluster.request("POST", "/v1/responses", long, key)[2])["id"]
            ask = lambda: cluster.request("POST", TEXT, {"prompt": "x", "max_tokens": 1}, key)[0]
            self.assertEqual(ask(), 429)
            self.assertEqual(json.loads(cluster.request("GET", path, headers=key)[2])["status"], "in_progress")
            self.assertEqual(cluster.request("POST", path + "/cancel", headers=key)[0], 200)
            deadline = time.monotonic() + 30
            while ask() == 429 and time.monotonic() < deadline:
                time.sleep(0.02)
            for _ in range(20):  # a client that has an answer may send the next request at once
                self.assertEqual(ask(), 200)

    def test_flags_from_file_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "numoe.toml")
            with open(config, "w", encoding="utf-8") as f:
                f.write('served-model-name = "from-file"\nlog-format = "json"\nmax-model-len = 100\n')  # the environment's 64 applies
            os.environ["NUMOE_MAX_MODEL_LEN"] = "64"
            try:
                with Cluster(BIN, MODEL, coordinator_flags=["--config", config]) as cluster:
                    model = json.loads(cluster.request("GET", "/v1/models")[2])["data"][0]
                    self.assertEqual((model["id"], model["max_model_len"]), ("from-file", 64))
                    status, headers, _ = cluster.request("POST", TEXT, {"prompt": "x", "max_tokens": 1})
                    self.assertEqual(status, 200)
                    lines = [json.loads(line) for line in cluster.coordinator.log().splitlines() if line]
                    ids = [line["request_id"] for line in lines if "path=/v1/completions" in line["message"]]
                    self.assertEqual(ids, [headers["x-request-id"]])
            finally:
                del os.environ["NUMOE_MAX_MODEL_LEN"]

    def test_truncated_checkpoint_is_refused_by_both_daemons(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(MODEL, model)
            shard = sorted(glob.glob(model + "/*.safetensors"))[0]
            os.truncate(shard, os.path.getsize(shard) - 100)
            for argv in ([os.path.join(BIN, "numoe-expert-worker"), "--listen", f"unix:{folder}/w.sock", "--metrics-port", "0"],
                         [os.path.join(BIN, "numoe-coordinator"), "--port", "0", "--workers", f"unix:{folder}/w.sock"]):
                done = subprocess.run([*argv, "--model", model], capture_output=True, text=True, timeout=30)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(os.path.basename(shard), done.stderr)
                self.assertIn("truncated", done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = os.path.abspath(options.bin)
    for module in (command_lines, dialects, host_memory, host_peers, http_rules, liveness, mutual_tls, promises, resources, routing,
                   supervision, swapped_workers, tenants, tracing):
        module.BIN = BIN
        globals().update({name: what for name, what in vars(module).items()
                          if isinstance(what, type) and issubclass(what, unittest.TestCase)})
    faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)  # on a time-out the stacks are printed before the caller ends the process
    sys.exit(skips.finish(unittest.main(argv=[sys.argv[0], *rest], exit=False).result))
