// OpenAI's JavaScript SDK against a server: node openai_sdk.mjs BASE_URL. Prints one line of JSON with what it saw.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const question = { model, temperature: 0, max_tokens: 400, messages: [{ role: "user", content: "What is 84 * 3 / 2?" }] };
const seen = { model };

seen.chat = (await client.chat.completions.create(question)).choices[0].message.content;

const runner = client.chat.completions.stream(question);
let pieces = "";
runner.on("content", (piece) => (pieces += piece));
seen.stream = (await runner.finalChatCompletion()).choices[0].message.content;
seen.pieces = pieces;

const answer = { model, temperature: 0, input: question.messages[0].content };
seen.response = (await client.responses.create(answer)).output_text;
seen.events = [];
const responses = client.responses.stream(answer);
for await (const event of responses) seen.events.push(event.type);
seen.streamed_response = (await responses.finalResponse()).output_text;

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const called = await client.chat.completions.create({
  ...question,
  messages: [{ role: "user", content: "What is the weather in Paris?" }],
  tools: [{ type: "function", function: { name: "get_weather", description: "Weather of a city", parameters } }],
  tool_choice: "required",
});
seen.call = called.choices[0].message.tool_calls[0].function;

try {
  await client.chat.completions.create({ ...question, temperature: 9 });
} catch (error) {
  seen.error = { type: error.constructor.name, status: error.status, param: error.param };
}
console.log(JSON.stringify(seen));
