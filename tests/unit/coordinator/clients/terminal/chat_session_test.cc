#include "coordinator/clients/terminal/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <fstream>

#include "tests/support/canned_server.h"

namespace numoe::clients {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string Delta(const std::string& fields) {
  return R"({"choices":[{"index":0,"delta":{)" + fields + "}}]}";
}
CannedReply Says(const std::string& text) {
  return StreamReply(
      {Delta(R"("role":"assistant","content":")" + text + "\""),
       R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}})"});
}

// A person who types these lines.
struct Person {
  std::deque<std::string> lines;
  std::string printed, told;
  std::vector<std::string> prompts;

  Terminal terminal() {
    return {.print = [this](std::string_view text) { printed += text; },
            .tell = [this](std::string_view text) { told += text; },
            .read = [this](const std::string& prompt) -> std::optional<std::string> {
              prompts.push_back(prompt);
              if (lines.empty()) return std::nullopt;
              const std::string line = lines.front();
              lines.pop_front();
              return line;
            },
            .style = {.person = true}};
  }
};

// Types `lines` to a session with `server`; returns the messages of the last request.
json Talk(const CannedServer& server, Person& person, std::deque<std::string> lines, bool stream = true) {
  const auto client = *net::HttpClient::Create(*net::ParseUrl(server.url()), "");
  ChatHistory history;
  history.SetModel("m");
  person.lines = std::move(lines);
  ChatSession(*client, person.terminal(), history, stream).Talk();
  const auto requests = server.requests();
  return requests.empty() ? json() : json::parse(requests.back().body)["messages"];
}

TEST(ChatSession, KeepsTheConversation) {
  CannedServer server([](const CannedRequest&) { return Says("hello"); });
  Person person;
  const json messages = Talk(server, person, {"hi", "", "  and you?  "});
  EXPECT_EQ(messages, json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},
                                      {"role":"user","content":"and you?"}])"));
  EXPECT_EQ(person.printed, "hello\nhello\n");
  EXPECT_EQ(person.told, "");
}

TEST(ChatSession, WithoutStreaming) {
  CannedServer server([](const CannedRequest& request) {
    EXPECT_EQ(json::parse(request.body)["stream"], false);
    return JsonReply(200, R"({"choices":[{"message":{"content":"whole"},"finish_reason":"length"}]})");
  });
  Person person;
  Talk(server, person, {"hi"}, false);
  EXPECT_EQ(person.printed, "whole\n");
  EXPECT_THAT(person.told, HasSubstr("cut off"));
}

TEST(ChatSession, AFailedQuestionIsForgotten) {
  int answered = 0;
  CannedServer server([&](const CannedRequest&) {
    switch (answered++) {
      case 0:
        return JsonReply(400, R"({"error":{"message":"temperature is too hot"}})");
      case 1:
        return StreamReply({Delta(R"("content":"par")"), R"({"error":{"message":"worker gone"}})"});
      case 2: {
        CannedReply cut = Says("x");
        cut.pieces.pop_back();
        return cut;
      }
      default:
        return Says("fine");
    }
  });
  Person person;
  const json messages = Talk(server, person, {"one", "two", "three", "four"});
  EXPECT_EQ(messages, json::parse(R"([{"role":"user","content":"four"}])"));
  EXPECT_THAT(person.told, HasSubstr("numoe-chat: 400: temperature is too hot\n"));
  EXPECT_THAT(person.told, HasSubstr("numoe-chat: the server ended the answer with an error: worker gone\n"));
  EXPECT_THAT(person.told, HasSubstr("the answer was cut off"));
}

TEST(ChatSession, InterruptStopsTheAnswerAndKeepsIt) {
  CannedServer server([](const CannedRequest&) {
    CannedReply reply = Says("never ending");
    reply.pieces.resize(2);  // its head and the first delta
    reply.hold = true;
    return reply;
  });
  const auto client = *net::HttpClient::Create(*net::ParseUrl(server.url()), "");
  Person person;
  Terminal terminal = person.terminal();
  terminal.print = [&](std::string_view text) {
    person.printed += text;
    if (text == "never ending") raise(SIGINT);
  };
  ChatHistory history;
  ChatSession session(*client, terminal, history, true);
  EXPECT_EQ(session.Ask("go").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(person.printed, "never ending\n");
  EXPECT_EQ(person.told, "(stopped)\n");
  while (server.hung_up() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  person.lines = {"/save " + testing::TempDir() + "/stopped.json"};
  session.Talk();
  const json saved = json::parse(std::ifstream(testing::TempDir() + "/stopped.json"));
  EXPECT_EQ(saved["messages"][1]["content"], "never ending");
}

TEST(ChatSession, AsksForTheResultsOfTools) {
  int answered = 0;
  CannedServer server([&](const CannedRequest&) {
    if (answered++ == 0)
      return StreamReply(
          {Delta(
               R"("tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"weather","arguments":""}}])"),
           Delta(R"("tool_calls":[{"index":0,"function":{"arguments":"{}"}}])")});
    return Says("17 degrees");
  });
  Person person;
  const json messages = Talk(server, person, {"how warm?", "17"});
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["name"], "weather");
  EXPECT_EQ(messages[2],
            json::parse(R"({"role":"tool","tool_call_id":"c1","name":"weather","content":"17"})"));
  EXPECT_EQ(person.printed, "calls weather {}\n17 degrees\n");
  EXPECT_EQ(person.prompts, (std::vector<std::string>{"> ", "result of weather> ", "> "}));
}

TEST(ChatSession, CommandsChangeWhatIsSent) {
  CannedServer server([](const CannedRequest& request) {
    return request.target == "/v1/models"
               ? JsonReply(200, R"({"data":[{"id":"a","max_model_len":4096},{"id":"m"}]})")
               : Says("ok");
  });
  Person person;
  Talk(server, person,
       {"/system be brief", "/set temperature .6", "/set top_p=0.9", "/model", "first", "/tokens", "/undo",
        "//etc is a folder", "/retry", "/set top_p", "/model a", "last"});
  const auto requests = server.requests();
  const json last = json::parse(requests.back().body);
  EXPECT_EQ(last["model"], "a");
  EXPECT_EQ(last["temperature"], 0.6);
  EXPECT_FALSE(last.contains("top_p"));
  EXPECT_EQ(
      last["messages"],
      json::parse(R"([{"role":"system","content":"be brief"},{"role":"user","content":"/etc is a folder"},
      {"role":"assistant","content":"ok"},{"role":"user","content":"last"}])"));
  EXPECT_EQ(json::parse(requests[1].body)["top_p"], 0.9);
  EXPECT_THAT(person.told, HasSubstr("  a, 4096 tokens\n* m\n"));
  EXPECT_THAT(person.told, HasSubstr("the prompt had 9 tokens (4 of them cached), the answer 2 in"));
  EXPECT_THAT(person.told, HasSubstr("the conversation has 11 tokens; all answers together have 2\n"));
}

TEST(ChatSession, AnErrorOfTheServerCannotControlTheTerminal) {
  CannedServer server([](const CannedRequest&) {
    return JsonReply(400, R"({"error":{"message":"\u001b]0;title\u0007 and \u009b31m red"}})");
  });
  Person person;
  Talk(server, person, {"hi"});
  EXPECT_THAT(person.told, HasSubstr("]0;title and 31m red"));
  for (const char* const control : {"\x1b", "\x07", "\xc2\x9b"})
    EXPECT_EQ(person.told.find(control), std::string::npos);
}

TEST(ChatSession, SeveralLinesAreAMessageAndACommandStandsAlone) {
  CannedServer server([](const CannedRequest&) { return Says("ok"); });
  Person person;
  const json messages =
      Talk(server, person, {"/clear the table\nand more", "/exit code 1, what is it?", "last"});
  EXPECT_EQ(messages[0]["content"], "/clear the table\nand more");
  EXPECT_EQ(messages.back()["content"], "last") << "the program goes on";
  EXPECT_THAT(person.told, HasSubstr("/exit stands alone; //exit code 1, what is it? sends this line"));
}

TEST(ChatSession, SaveAndLoad) {
  CannedServer server([](const CannedRequest&) { return Says("hello"); });
  const std::string path = testing::TempDir() + "/chat_session_test.json";
  Person person;
  const json messages =
      Talk(server, person,
           {"hi", "/save " + path, "/clear", "/load " + path, "again", "/load /nowhere", "/save /no/where"});
  EXPECT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2]["content"], "again");
  EXPECT_THAT(person.told, HasSubstr("saved 2 messages to " + path +
                                     "\n(a new conversation begins)\nloaded 2 messages\n"));
  EXPECT_THAT(person.told, HasSubstr("/nowhere: cannot be opened"));
  EXPECT_THAT(person.told, HasSubstr("/no/where: cannot be written"));
}

TEST(ChatSession, HelpNamesEveryCommandAndExitLeaves) {
  CannedServer server([](const CannedRequest&) { return Says("x"); });
  Person person;
  Talk(server, person,
       {"/help", "/nonsense x", "/retry", "/undo", "/tokens", "/set messages 1", "/load", "/exit", "unread"});
  for (const char* name :
       {"help", "clear", "system", "set", "model", "save", "load", "retry", "undo", "tokens", "exit"})
    EXPECT_THAT(person.told, HasSubstr(std::string("  /") + name + " ")) << name;
  EXPECT_THAT(person.told,
              HasSubstr("/nonsense is not a command; /help lists the commands, and //nonsense x "));
  EXPECT_EQ(person.lines, (std::deque<std::string>{"unread"}));
  EXPECT_TRUE(server.requests().empty());
}

TEST(ChatSession, ExitHasOtherNames) {
  CannedServer server([](const CannedRequest&) { return Says("x"); });
  for (const char* name : {"/exit", "/quit", "/bye"}) {
    Person person;
    Talk(server, person, {name, "unread"});
    EXPECT_EQ(person.lines, (std::deque<std::string>{"unread"})) << name;
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST(ChatSession, ClearHasOtherNamesAndKeepsTheSystemMessage) {
  CannedServer server([](const CannedRequest&) { return Says("x"); });
  for (const char* name : {"/clear", "/new", "/reset"}) {
    Person person;
    EXPECT_EQ(Talk(server, person, {"/system be brief", "one", name, "two"}),
              json::parse(R"([{"role":"system","content":"be brief"},{"role":"user","content":"two"}])"))
        << name;
  }
}

}  // namespace
}  // namespace numoe::clients
