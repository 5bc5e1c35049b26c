#!/usr/bin/env python3
"""Real clients against real daemons that serve the trained model: OpenAI's and Anthropic's SDKs, LangChain, bench clients.

Usage: run.py --bin build/release/bin [TEST...]   Each client that is not installed (requirements.txt, package.json) is
skipped with a line that says so, and where NUMOE_REQUIRE=1 is set that is a failure; the raw requests of bench clients
need nothing.
"""
import argparse
import glob
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tests", "support")]
import skips  # noqa: E402
from daemons import Cluster  # noqa: E402

MODEL = os.path.join(ROOT, "deploy/models/nano")
BIN = ""
CLUSTER = None  # one for all: no test breaks it
SUM = "What is 84 * 3 / 2?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WEATHER = {"name": "get_weather", "description": "Weather of a city", "parameters": CITY}
ASK_WEATHER = "What is the weather in Paris?"


def installed(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def user(text):
    return [{"role": "user", "content": text}]


@unittest.skipUnless(installed("openai"), "not installed: openai for this Python (pip install -r tests/clients/requirements.txt)")
class OpenAiPython(unittest.TestCase):
    def setUp(self):
        import openai
        self.openai = openai
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{CLUSTER.port}/v1", api_key="none", max_retries=0)
        self.model = self.client.models.list().data[0].id
        self.asks = {"model": self.model, "temperature": 0, "max_tokens": 400}

    def test_models(self):
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)

    def test_chat_whole_and_streamed(self):
        whole = self.client.chat.completions.create(messages=user(SUM), **self.asks)
        self.assertIn("126", whole.choices[0].message.content)
        self.assertGreater(whole.usage.completion_tokens_details.reasoning_tokens, 0)
        pieces = []
        with self.client.chat.completions.stream(messages=user(SUM), **self.asks) as stream:
            for event in stream:
                if event.type == "content.delta":
                    pieces.append(event.delta)
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.content, whole.choices[0].message.content)
        self.assertEqual("".join(pieces), whole.choices[0].message.content)

    def test_completions(self):
        body = {"model": self.model, "prompt": "one two three", "max_tokens": 8, "temperature": 0, "logprobs": 2}
        whole = self.client.completions.create(**body)
        self.assertEqual(len(whole.choices[0].logprobs.tokens), whole.usage.completion_tokens)
        streamed = "".join(chunk.choices[0].text for chunk in self.client.completions.create(stream=True, **body))
        self.assertEqual(streamed, whole.choices[0].text)

    def test_a_loop_of_tools(self):
        tools = [{"type": "function", "function": WEATHER}]
        messages = user(ASK_WEATHER)
        called = self.client.chat.completions.create(messages=messages, tools=tools, **self.asks).choices[0]
        self.assertEqual(called.finish_reason, "tool_calls")
        call = called.message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
        messages += [called.message, {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"celsius": 17})}]
        answer = self.client.chat.completions.create(messages=messages, tools=tools, **self.asks).choices[0]
        self.assertEqual(answer.finish_reason, "stop")
        self.assertTrue(answer.message.content)

    def test_structured_output(self):
        import pydantic

        class Sum(pydantic.BaseModel):
            result: int
            even: bool

        parsed = self.client.chat.completions.parse(messages=user(SUM), response_format=Sum, **self.asks)
        self.assertIsInstance(parsed.choices[0].message.parsed, Sum)
        answer = self.client.responses.parse(model=self.model, input=SUM, text_format=Sum, temperature=0)
        self.assertIsInstance(answer.output_parsed, Sum)

    def test_errors_are_typed(self):
        cases = [(self.openai.BadRequestError, {"temperature": 9}, "temperature"), (self.openai.NotFoundError, {"model": "nobody"}, "model")]
        for kind, wrong, param in cases:
            with self.assertRaises(kind) as caught:
                self.client.chat.completions.create(messages=user("x"), **{**self.asks, **wrong})
            self.assertEqual(caught.exception.param, param)
        with self.assertRaises(self.openai.NotFoundError):
            self.client.responses.retrieve("resp_nobody")

    def test_responses_whole_streamed_and_kept(self):
        asks = {"model": self.model, "input": SUM, "temperature": 0, "metadata": {"k": "v"}}
        whole = self.client.responses.create(**asks)
        self.assertEqual((whole.status, whole.metadata), ("completed", {"k": "v"}))
        self.assertIn("126", whole.output_text)
        self.assertEqual([item.type for item in whole.output], ["reasoning", "message"])
        with self.client.responses.stream(**asks) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual(final.output_text, whole.output_text)
        self.assertEqual(final.output[0].content[0].text, whole.output[0].content[0].text)
        self.assertEqual((kinds[0], kinds[-1]), ("response.created", "response.completed"))
        self.assertEqual(self.client.responses.retrieve(final.id).output_text, whole.output_text)
        self.assertEqual([item.role for item in self.client.responses.input_items.list(final.id)], ["user"])
        self.client.responses.delete(final.id)
        with self.assertRaises(self.openai.NotFoundError):
            self.client.responses.retrieve(final.id)

    def test_responses_go_on_from_earlier_ones(self):
        first = self.client.responses.create(model=self.model, input="My name is Ada and the door code is 4711.", temperature=0)
        second = self.client.responses.create(model=self.model, input="What is the door code?", previous_response_id=first.id, temperature=0)
        self.assertIn("4711", second.output_text)
        with self.assertRaises(self.openai.BadRequestError):
            self.client.responses.create(model=self.model, input="x", previous_response_id="resp_nobody")

    def test_a_loop_of_tools_in_responses(self):
        tools = [{"type": "function", "strict": True, **WEATHER}]
        asks = {"model": self.model, "tools": tools, "temperature": 0}
        first = self.client.responses.create(input=ASK_WEATHER, tool_choice="required", **asks)
        call = [item for item in first.output if item.type == "function_call"][0]
        self.assertEqual((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Paris"}))
        output = {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps({"celsius": 17})}
        by_id = self.client.responses.create(input=[output], previous_response_id=first.id, **asks)
        by_items = self.client.responses.create(input=[*user(ASK_WEATHER), *first.output, output], **asks)
        self.assertEqual(by_id.output_text, by_items.output_text)
        self.assertTrue(by_id.output_text)
        with self.client.responses.stream(input=ASK_WEATHER, tool_choice="required", **asks) as stream:
            done = [event for event in stream if event.type == "response.function_call_arguments.done"]
        self.assertEqual(json.loads(done[0].arguments), {"city": "Paris"})

    def test_responses_in_the_background(self):
        asked = self.client.responses.create(model=self.model, input=SUM, background=True, temperature=0)
        self.assertEqual(asked.status, "queued")
        done = self.await_end(asked.id)
        self.assertEqual(done.status, "completed")
        self.assertIn("126", done.output_text)
        long = {"extra_body": {"ignore_eos": True}, "max_output_tokens": 3000}
        running = self.client.responses.create(model=self.model, input="Count.", background=True, **long)
        self.assertEqual(self.client.responses.cancel(running.id).status, "cancelled")
        self.assertEqual(self.await_end(running.id).status, "cancelled")
        with self.assertRaises(self.openai.BadRequestError):
            self.client.responses.create(model=self.model, input="x", background=True, store=False)

    def await_end(self, response_id):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            response = self.client.responses.retrieve(response_id)
            if response.status not in ("queued", "in_progress"):
                return response
            time.sleep(0.05)
        raise AssertionError(f"{response_id} does not end")


@unittest.skipUnless(installed("anthropic"), "not installed: anthropic for this Python (pip install -r tests/clients/requirements.txt)")
class AnthropicPython(unittest.TestCase):
    def setUp(self):
        import anthropic
        self.anthropic = anthropic
        self.client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{CLUSTER.port}", api_key="none", max_retries=0)
        self.model = json.loads(CLUSTER.request("GET", "/v1/models")[2])["data"][0]["id"]
        self.asks = {"model": self.model, "extra_body": {"temperature": 0}, "max_tokens": 400}
        self.tools = [{"name": "get_weather", "description": "Weather of a city", "input_schema": CITY}]

    def test_whole_and_streamed(self):
        whole = self.client.messages.create(messages=user(SUM), system="You are brief.", **self.asks)
        self.assertEqual((whole.type, whole.role, whole.stop_reason), ("message", "assistant", "end_turn"))
        self.assertEqual([block.type for block in whole.content], ["text"])  # thinking is asked for, or it does not come
        for thinking, blocks in ({"type": "disabled"}, ["text"]), ({"type": "enabled", "budget_tokens": 1024}, ["thinking", "text"]):
            asks = {**self.asks, "messages": user(SUM), "system": "You are brief.", "thinking": thinking}
            whole = self.client.messages.create(**asks)
            with self.client.messages.stream(**asks) as stream:
                text = "".join(stream.text_stream)
                final = stream.get_final_message()
            self.assertEqual([block.type for block in whole.content], blocks)
            self.assertEqual([block.to_dict() for block in final.content], [block.to_dict() for block in whole.content])
            self.assertEqual(text, "".join(block.text for block in whole.content if block.type == "text"))
            self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_a_stop_sequence(self):
        whole = self.client.messages.create(messages=user(SUM), stop_sequences=["126"], **self.asks)
        self.assertEqual((whole.stop_reason, whole.stop_sequence), ("stop_sequence", "126"))
        short = self.client.messages.create(messages=user(SUM), **{**self.asks, "max_tokens": 3})
        self.assertEqual(short.stop_reason, "max_tokens")

    def test_a_loop_of_tools(self):
        asks = {"tools": self.tools, **self.asks}
        with self.client.messages.stream(messages=user(ASK_WEATHER), tool_choice={"type": "any"}, **asks) as stream:
            called = stream.get_final_message()
        self.assertEqual(called.stop_reason, "tool_use")
        call = [block for block in called.content if block.type == "tool_use"][0]
        self.assertEqual((call.name, call.input), ("get_weather", {"city": "Paris"}))
        named = self.client.messages.create(messages=user(ASK_WEATHER), tool_choice={"type": "tool", "name": "get_weather"}, **asks)
        self.assertEqual((named.stop_reason, named.content[-1].type), ("tool_use", "tool_use"))
        result = {"type": "tool_result", "tool_use_id": call.id, "content": json.dumps({"celsius": 17})}
        history = [*user(ASK_WEATHER), {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
        answer = self.client.messages.create(messages=history, **asks)
        self.assertEqual(answer.stop_reason, "end_turn")

    def test_tokens_are_counted(self):
        counted = self.client.messages.count_tokens(model=self.model, messages=user(SUM), tools=self.tools)
        asked = self.client.messages.create(messages=user(SUM), tools=self.tools, **{**self.asks, "max_tokens": 1})
        self.assertEqual(counted.input_tokens, asked.usage.input_tokens + asked.usage.cache_read_input_tokens)

    def test_errors_are_typed(self):
        with self.assertRaises(self.anthropic.BadRequestError) as caught:
            self.client.messages.create(messages=user("x"), **{**self.asks, "extra_body": {"temperature": 9}})
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(self.anthropic.NotFoundError) as caught:
            self.client.messages.create(messages=user("x"), **{**self.asks, "model": "nobody"})
        self.assertEqual(caught.exception.body["error"]["type"], "not_found_error")


@unittest.skipUnless(installed("langchain_openai"), "not installed: langchain-openai for this Python (pip install -r tests/clients/requirements.txt)")
class LangChain(unittest.TestCase):
    def setUp(self):
        from langchain_openai import ChatOpenAI
        model = json.loads(CLUSTER.request("GET", "/v1/models")[2])["data"][0]["id"]
        self.chat = ChatOpenAI(model=model, base_url=f"http://127.0.0.1:{CLUSTER.port}/v1", api_key="none", temperature=0, max_retries=0)

    def test_whole_and_streamed(self):
        whole = self.chat.invoke(SUM)
        self.assertIn("126", whole.content)
        self.assertGreater(whole.usage_metadata["output_tokens"], 0)
        self.assertEqual("".join(chunk.content for chunk in self.chat.stream(SUM)), whole.content)

    def test_tools_that_are_bound(self):
        bound = self.chat.bind_tools([{"type": "function", "function": WEATHER}])
        calls = bound.invoke(ASK_WEATHER).tool_calls
        self.assertEqual([(call["name"], call["args"]) for call in calls], [("get_weather", {"city": "Paris"})])
        gathered = None
        for chunk in bound.stream(ASK_WEATHER):
            gathered = chunk if gathered is None else gathered + chunk
        self.assertEqual([(call["name"], call["args"]) for call in gathered.tool_calls], [("get_weather", {"city": "Paris"})])


class OpenAiJavaScript(unittest.TestCase):
    def test_everything(self):
        modules = os.environ.get("NUMOE_NODE_MODULES", "")
        if not shutil.which("node") or not os.path.isdir(os.path.join(modules, "openai")):
            self.skipTest("not installed: node, or openai in the folder that NUMOE_NODE_MODULES names (tests/clients/package.json)")
        # Modules are looked for beside the script.
        script = os.path.join(os.path.dirname(modules), "openai_sdk.mjs")
        shutil.copy(os.path.join(HERE, "openai_sdk.mjs"), script)
        run = subprocess.run(["node", script, f"http://127.0.0.1:{CLUSTER.port}/v1"], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        seen = json.loads(run.stdout)
        self.assertIn("126", seen["chat"])
        self.assertEqual((seen["stream"], seen["pieces"]), (seen["chat"], seen["chat"]))
        self.assertIn("126", seen["response"])
        self.assertEqual(seen["streamed_response"], seen["response"])
        self.assertEqual((seen["events"][0], seen["events"][-1]), ("response.created", "response.completed"))
        self.assertEqual((seen["call"]["name"], json.loads(seen["call"]["arguments"])), ("get_weather", {"city": "Paris"}))
        self.assertEqual(seen["error"], {"type": "BadRequestError", "status": 400, "param": "temperature"})


class BenchClients(unittest.TestCase):
    """The exact requests of the two public bench clients, read as strictly as they read."""

    model = ""

    def setUp(self):
        self.model = json.loads(CLUSTER.request("GET", "/v1/models")[2])["data"][0]["id"]

    def lines(self, path, body):
        """-> the JSON of the data lines; fails on any other line that is not empty."""
        status, headers, text = CLUSTER.request("POST", path, body, {"Authorization": "Bearer none", "x-request-id": "bench-1"})
        self.assertEqual(status, 200, text)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        lines = [line for line in text.split("\n") if line]
        self.assertTrue(all(line.startswith("data: ") for line in lines), "a comment or an event's name")
        self.assertEqual(lines[-1], "data: [DONE]")
        return [json.loads(line[len("data: "):]) for line in lines[:-1]]

    def test_vllm_completions(self):
        events = self.lines("/v1/completions", {
            "model": self.model, "prompt": "one two", "repetition_penalty": 1.0, "max_tokens": 6, "logprobs": None, "stream": True,
            "stream_options": {"include_usage": True}, "ignore_eos": True})
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 6)
        self.assertTrue(all(event["choices"] for event in events[:-1]))

    def test_vllm_chat(self):
        events = self.lines("/v1/chat/completions", {
            "model": self.model, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], "max_completion_tokens": 6,
            "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True})
        role, first = (event["choices"][0]["delta"] for event in events[:2])
        self.assertEqual(role, {"role": "assistant", "content": ""}, "it is taken for the first token, with which it comes")
        self.assertTrue(first.get("content") or first.get("reasoning"))
        self.assertEqual((events[-1]["choices"], events[-1]["usage"]["completion_tokens"]), ([], 6))

    def test_sglang_completions(self):
        events = self.lines("/v1/completions", {
            "model": self.model, "prompt": "one two", "temperature": 0, "best_of": 1, "max_tokens": 6, "stream": True, "ignore_eos": True})
        self.assertTrue(all("text" in event["choices"][0] for event in events), "a chunk without choices fails the request")

    def test_sglang_chat(self):
        events = self.lines("/v1/chat/completions", {
            "model": self.model, "messages": user("Hello"), "temperature": 0, "max_completion_tokens": 6, "stream": True, "ignore_eos": True})
        self.assertTrue(all(event["choices"] for event in events))

    def test_sglang_generate(self):
        body = {"text": "one two", "sampling_params": {"temperature": 0.0, "max_new_tokens": 6, "ignore_eos": True}, "lora_path": None,
                "return_logprob": False, "logprob_start_len": -1}
        events = self.lines("/generate", {**body, "stream": True})
        texts = [event["text"] for event in events]
        self.assertTrue(all(later.startswith(earlier.rstrip("\ufffd")) for earlier, later in zip(texts, texts[1:])), texts)
        counts = [event["meta_info"]["completion_tokens"] for event in events]
        self.assertEqual((counts, counts[-1]), (sorted(counts), 6))
        whole = CLUSTER.post("/generate", {**body, "stream": False})
        self.assertEqual((whole["text"], whole["output_ids"]), (texts[-1], events[-1]["output_ids"]))
        self.assertEqual(whole["meta_info"]["finish_reason"], {"type": "length", "length": 6})
        again = CLUSTER.post("/generate", {**body, "text": None, "input_ids": [[1, 2], [3]], "return_logprob": True, "logprob_start_len": 0})
        self.assertEqual([len(one["meta_info"]["input_token_logprobs"]) for one in again], [2, 1])
        self.assertEqual([len(one["meta_info"]["output_token_logprobs"]) for one in again], [6, 6])

    def test_around_a_run(self):
        self.assertEqual(CLUSTER.request("POST", "/flush_cache?timeout=60")[0], 200)
        self.assertEqual(CLUSTER.request("POST", "/reset_prefix_cache")[0], 200)
        self.assertIn("internal_states", json.loads(CLUSTER.request("GET", "/get_server_info")[2]))


class WithoutSdk(unittest.TestCase):
    """What the SDKs' tests rest on, where there is no SDK."""

    def test_messages_are_streamed_as_named_events(self):
        body = {"messages": user(SUM), "max_tokens": 400, "temperature": 0, "thinking": {"type": "adaptive"}}
        whole = CLUSTER.post("/v1/messages", body)
        self.assertEqual(([block["type"] for block in whole["content"]], whole["stop_reason"]), (["thinking", "text"], "end_turn"))
        _, _, text = CLUSTER.request("POST", "/v1/messages", {**body, "stream": True})
        events = [json.loads(frame.split("\ndata: ")[1]) for frame in text.split("\n\n") if frame]
        self.assertEqual([event["type"] for event in events[:3]], ["message_start", "ping", "content_block_start"])
        self.assertEqual([event["type"] for event in events[-2:]], ["message_delta", "message_stop"])
        said = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
        self.assertEqual(said, whole["content"][1]["text"])
        counted = CLUSTER.post("/v1/messages/count_tokens", {"messages": user(SUM)})["input_tokens"]
        self.assertEqual(counted, whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"])
        refused = CLUSTER.post("/v1/messages", {"messages": user(SUM)}, expect=400)
        self.assertEqual((refused["type"], refused["error"]["type"]), ("error", "invalid_request_error"))

    def test_a_response_is_its_keys_own(self):
        own, other = {"Authorization": "Bearer own"}, {"x-api-key": "other"}
        _, _, text = CLUSTER.request("POST", "/v1/responses", {"input": SUM, "max_output_tokens": 8}, own)
        path = "/v1/responses/" + json.loads(text)["id"]
        self.assertEqual(json.loads(CLUSTER.request("GET", path, headers=own)[2]), json.loads(text))
        for method, rest in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
            self.assertEqual(CLUSTER.request(method, path + rest, headers=other)[0], 404, method + rest)
        again = {"input": "x", "previous_response_id": json.loads(text)["id"]}
        self.assertEqual(CLUSTER.request("POST", "/v1/responses", again, other)[0], 400)
        self.assertEqual(CLUSTER.request("DELETE", path, headers=own)[0], 200)
        self.assertEqual(CLUSTER.request("GET", path, headers=own)[0], 404)
        unkept = CLUSTER.post("/v1/responses", {"input": SUM, "max_output_tokens": 8, "store": False})
        self.assertEqual(CLUSTER.request("GET", "/v1/responses/" + unkept["id"])[0], 404)

    def test_the_background(self):
        refused = CLUSTER.post("/v1/responses", {"input": 1, "background": True}, expect=400)
        self.assertEqual(refused["error"]["param"], "input")
        long = {"input": "Count.", "background": True, "ignore_eos": True, "max_output_tokens": 3000}
        running = CLUSTER.post("/v1/responses", long)
        self.assertEqual(running["status"], "queued")
        path = "/v1/responses/" + running["id"]
        self.assertEqual(json.loads(CLUSTER.request("GET", path)[2])["status"], "in_progress")
        self.assertEqual(CLUSTER.request("POST", path + "/cancel")[0], 200)
        done = self.until(path, lambda answer: answer.get("usage"))
        self.assertEqual(done["status"], "cancelled")
        self.assertLess(done["usage"]["output_tokens"], 3000)
        removed = CLUSTER.post("/v1/responses", long)["id"]
        self.assertEqual(CLUSTER.request("DELETE", "/v1/responses/" + removed)[0], 200)
        self.until("/load", lambda load: load["server_load"] == 0)
        self.assertEqual(CLUSTER.request("GET", "/v1/responses/" + removed)[0], 404, "it came back when it ended")

    def until(self, path, good):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = json.loads(CLUSTER.request("GET", path)[2])
            if good(answer):
                return answer
            time.sleep(0.02)
        raise AssertionError(f"{path} stays {answer}")

    def test_the_document_has_every_route_of_the_dialects(self):
        document = json.loads(CLUSTER.request("GET", "/openapi.json")[2])
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses/{response_id}", "/generate", "/health"):
            self.assertIn(path, document["paths"])


class Document(unittest.TestCase):
    def test_openapi_is_valid(self):
        if not installed("openapi_spec_validator"):
            self.skipTest("not installed: openapi-spec-validator for this Python (pip install -r tests/clients/requirements.txt)")
        from openapi_spec_validator import OpenAPIV31SpecValidator
        document = json.loads(CLUSTER.request("GET", "/openapi.json")[2])
        self.assertEqual([str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()], [])

    def test_answers_are_as_described(self):
        if not installed("jsonschema"):
            self.skipTest("not installed: jsonschema for this Python")
        import jsonschema
        document = json.loads(CLUSTER.request("GET", "/openapi.json")[2])
        asks = {"messages": user(SUM), "temperature": 0, "max_tokens": 20}
        asked = [("/v1/chat/completions", asks), ("/v1/messages", asks), ("/v1/messages/count_tokens", {"messages": user(SUM)}),
                 ("/v1/responses", {"input": SUM, "max_output_tokens": 20}), ("/v1/completions", {"prompt": "x"}),
                 ("/generate", {"text": "x"}), ("/tokenize", {"prompt": "x"})]
        for path, body in asked:
            operation = document["paths"][path]["post"]
            request = operation["requestBody"]["content"]["application/json"]["schema"]
            answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
            with self.subTest(path=path):
                jsonschema.validate(body, {**request, "components": document["components"]})
                jsonschema.validate(CLUSTER.post(path, body), {**answer, "components": document["components"]})
                _, _, error = CLUSTER.request("POST", path, {})
                shape = "AnthropicError" if "messages" in path else "Error"
                jsonschema.validate(json.loads(error), {"$ref": f"#/components/schemas/{shape}", "components": document["components"]})


def main():
    global BIN, CLUSTER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"), help="folder with the daemons")
    args, rest = parser.parse_known_args()
    BIN = os.path.abspath(args.bin)
    if not glob.glob(os.path.join(BIN, "numoe-coordinator")):
        parser.error(f"no numoe-coordinator in {BIN}")
    with Cluster(BIN, MODEL, coordinator_flags=["--max-num-seqs", "8"]) as CLUSTER:
        return skips.finish(unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result)


if __name__ == "__main__":
    sys.exit(main())
