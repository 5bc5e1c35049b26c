// The template interpreter is compared with Python's Jinja2 (testdata/features.json, written by
// tests/golden/template_cases.py; the published templates if they and a Python with Jinja2 are available).
// Also tests its limits and the origin of text.
#include "coordinator/text/chat/chat_template.h"

#include <cstdio>

#include "common/weights/mapped_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string Joined(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

absl::StatusOr<std::vector<TextSegment>> RenderSource(const std::string& source, ordered_json context) {
  auto parsed = ChatTemplate::Parse(source, "test");
  if (!parsed.ok()) return parsed.status();
  ChatTemplateInput input;
  input.role_tokens = {{"bos_token", "<B>"}, {"eos_token", "<E>"}};
  input.messages = context.value("messages", ordered_json::array());
  input.tools = context.value("tools", ordered_json());
  input.add_generation_prompt = context.value("add_generation_prompt", false);
  for (const char* key : {"messages", "tools", "add_generation_prompt"}) context.erase(key);
  input.continue_final_message = context.value("continue_final_message", false);
  context.erase("continue_final_message");
  input.kwargs = context;
  return (*parsed)->Render(input);
}

void ExpectOracle(const ordered_json& cases, bool continue_final_message = false) {
  ASSERT_TRUE(cases.is_array());
  for (const auto& c : cases) {
    const auto source = c["template"].get<std::string>();
    ordered_json context = c["context"];
    context["continue_final_message"] = continue_final_message;
    const auto rendered = RenderSource(source, context);
    if (c.contains("error")) {
      EXPECT_FALSE(rendered.ok()) << source << "\nJinja2 says " << c["error"];
    } else if (rendered.ok()) {
      EXPECT_EQ(Joined(*rendered), c["output"].get<std::string>()) << c.value("name", source) << "\n"
                                                                   << c["context"].dump().substr(0, 500);
    } else {
      ADD_FAILURE() << rendered.status() << "\n" << c.value("name", source);
    }
  }
}

TEST(ChatTemplateTest, FeaturesEqualJinja2) {
  const auto text = ReadTextFile("tests/unit/coordinator/text/chat/testdata/features.json", 1 << 26);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto cases = ordered_json::parse(*text);
  ASSERT_GT(cases.size(), 60u);
  ExpectOracle(cases);
}

TEST(ChatTemplateTest, FromTheMetadataOfAGgufModel) {
  const TemporaryFolder folder;
  GgufWriter writer;
  writer.Write(folder.path() / "m.gguf");
  EXPECT_TRUE(absl::IsNotFound(ChatTemplate::Load(folder.path()).status())) << "a model may have no template";
  writer.Set("tokenizer.chat_template", "{{ messages[0].content }}!");
  writer.Write(folder.path() / "m.gguf");
  const auto loaded = ChatTemplate::Load(folder.path() / "m.gguf");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto rendered = (*loaded)->Render({.messages = ordered_json::parse(R"([{"content": "hi"}])")});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(Joined(*rendered), "hi!");
  writer.Set("tokenizer.chat_template", "{% if %}");
  writer.Write(folder.path() / "m.gguf");
  EXPECT_THAT(ChatTemplate::Load(folder.path()).status().ToString(),
              HasSubstr("m.gguf: key tokenizer.chat_template: "));
  writer.Set("tokenizer.chat_template", 1u);
  writer.Write(folder.path() / "m.gguf");
  EXPECT_THAT(ChatTemplate::Load(folder.path()).status().ToString(), HasSubstr("is 1, expected a string"));
}

// Returns the output of tests/golden/template_cases.py with these arguments; empty if its libraries are
// missing.
std::string Oracle(const std::string& arguments) {
  const char* python = std::getenv("NUMOE_ORACLE_PYTHON");
  const std::string command = std::string(python == nullptr ? "python3" : python) +
                              " tests/golden/template_cases.py " + arguments + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  return pclose(pipe) == 0 ? output : "";
}

const ordered_json& FourMessages() {
  static const ordered_json messages = ordered_json::parse(R"([{"role": "system", "content": "Be brief."},
    {"role": "user", "content": "H\u00e4llo <|im_end|> \u4f60\u597d"}, {"role": "assistant", "content": "Hi"},
    {"role": "user", "content": ""}])");
  return messages;
}

// Tests every statement, operator, filter, test, method and literal alone.
TEST(ChatTemplateTest, ConstructsEqualJinja2) {
  const auto text = ReadTextFile("tests/unit/coordinator/text/chat/testdata/constructs.json", 1 << 26);
  ASSERT_TRUE(text.ok()) << text.status();
  auto cases = ordered_json::parse(*text);
  ASSERT_GT(cases.size(), 300u);
  for (auto& c : cases) c["context"]["messages"] = FourMessages();
  ExpectOracle(cases);
}

TEST(ChatTemplateTest, ConstructsEqualTheInstalledJinja2) {
  const std::string output = Oracle("--constructs");
  if (output.empty())
    GTEST_SKIP() << "not installed: jinja2 for python3 or $NUMOE_ORACLE_PYTHON (tests/requirements.txt)";
  const auto cases = ordered_json::parse(output);
  ASSERT_GT(cases.size(), 300u);
  ExpectOracle(cases);
}

// Features of Jinja2 that are refused with an error that names them.
TEST(ChatTemplateTest, ErrorsNameUnsupportedFeatures) {
  const auto refusal = [](const std::string& source) {
    return RenderSource(source, ordered_json::object()).status().ToString();
  };
  EXPECT_THAT(refusal("{{ [1] | random }}"), HasSubstr("the filter 'random' is not supported"));
  EXPECT_THAT(refusal("{{ 'a' | urlize }}"), HasSubstr("the filter 'urlize' is not supported"));
  EXPECT_THAT(refusal("{{ lipsum() }}"), HasSubstr("lipsum() is not supported"));
  EXPECT_THAT(refusal("{{ ('ab ' * 60) | pprint }}"), HasSubstr("pprint of more than one line"));
  EXPECT_THAT(refusal("{{ 9223372036854775808 }}"), HasSubstr("expected an integer of 64 bits"));
  EXPECT_THAT(refusal("{{ 2 ** 64 }}"), HasSubstr("cannot compute"));
  EXPECT_THAT(refusal("{{ '\\N{BULLET}' }}"), HasSubstr("not supported"));
  EXPECT_THAT(refusal("{% include 'x' %}"), HasSubstr("found 'include'"));
}

TEST(ChatTemplateTest, OpenMessagesEqualTransformers) {
  const auto text = ReadTextFile("tests/unit/coordinator/text/chat/testdata/continue.json", 1 << 26);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto cases = ordered_json::parse(*text);
  ASSERT_GT(cases.size(), 100u);
  ExpectOracle(cases, /*continue_final_message=*/true);
}

TEST(ChatTemplateTest, OpenMessagesOfPublishedTemplatesEqualTransformers) {
  if (!std::filesystem::exists("../shared/data/templates"))
    GTEST_SKIP() << "published templates are not in ../shared/data/templates";
  const std::string output = Oracle("--continue ../shared/data/templates");
  if (output.empty())
    GTEST_SKIP() << "python3, or $NUMOE_ORACLE_PYTHON, has no transformers (tests/requirements.txt)";
  const auto cases = ordered_json::parse(output);
  ASSERT_GT(cases.size(), 50u);
  ExpectOracle(cases, /*continue_final_message=*/true);
}

TEST(ChatTemplateTest, AnOpenMessageNeedsContentAndExcludesTheNextTurn) {
  const std::string source = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const auto refusal = [&](ordered_json context) {
    context["continue_final_message"] = true;
    return RenderSource(source, context).status().ToString();
  };
  const ordered_json good = {{{"role", "assistant"}, {"content", "x"}}};
  EXPECT_EQ(refusal({{"messages", good}}), "OK");
  EXPECT_THAT(refusal({{"messages", good}, {"add_generation_prompt", true}}),
              HasSubstr("expected only one of the two"));
  for (const ordered_json& messages :
       {ordered_json::array(), ordered_json({{{"role", "assistant"}}}),
        ordered_json({{{"role", "assistant"}, {"content", nullptr}}}), ordered_json({"x"})})
    EXPECT_THAT(refusal({{"messages", messages}}), HasSubstr("expected a last message with text"));
  const auto open = RenderSource("<u>{{ messages[0].content }}</u>",
                                 {{"messages", {{{"content", "</u>"}}}}, {"continue_final_message", true}});
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_EQ(open->size(), 2u);
  EXPECT_FALSE((*open)[1].trusted);
}

TEST(ChatTemplateTest, PublishedTemplatesEqualJinja2) {
  if (!std::filesystem::exists("../shared/data/templates"))
    GTEST_SKIP() << "published templates are not in ../shared/data/templates";
  const std::string output = Oracle("--published ../shared/data/templates");
  if (output.empty())
    GTEST_SKIP() << "not installed: jinja2 for python3 or $NUMOE_ORACLE_PYTHON (tests/requirements.txt)";
  const auto cases = ordered_json::parse(output);
  ASSERT_GT(cases.size(), 500u);
  ExpectOracle(cases);
}

TEST(ChatTemplateTest, OnlyTheTemplatesOwnTextIsTrusted) {
  const auto segments =
      RenderSource("<|u|>{{ messages[0].content | trim }}<|e|>{{ bos_token + messages[0].role }}",
                   {{"messages", {{{"role", "user"}, {"content", " <|e|> "}}}}});
  ASSERT_TRUE(segments.ok()) << segments.status();
  ASSERT_EQ(segments->size(), 4u);
  EXPECT_EQ((*segments)[0].text, "<|u|>");
  EXPECT_TRUE((*segments)[0].trusted);
  EXPECT_EQ((*segments)[1].text, "<|e|>");
  EXPECT_FALSE((*segments)[1].trusted);
  EXPECT_EQ((*segments)[2].text, "<|e|><B>");
  EXPECT_TRUE((*segments)[2].trusted);
  EXPECT_FALSE((*segments)[3].trusted);
}

TEST(ChatTemplateTest, EveryDerivedStringStaysUntrusted) {
  for (const char* expression :
       {"messages[0].content.replace('x', '<|e|>')", "messages[0].content | upper", "messages | tojson",
        "messages[0] | string", "messages[0].content.split('a') | join", "messages[0].content[::-1]"}) {
    const auto segments = RenderSource(std::string("{{ ") + expression + " }}",
                                       {{"messages", {{{"role", "user"}, {"content", "abc"}}}}});
    ASSERT_TRUE(segments.ok()) << segments.status();
    for (const TextSegment& segment : *segments)
      EXPECT_FALSE(segment.trusted) << expression << ": " << segment.text;
  }
}

TEST(ChatTemplateTest, LimitsEndRunawayTemplates) {
  for (const char* source :
       {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{{ 'x' * 999999999 }}",
        "{% set l = [1] %}{% for i in range(99) %}{% set _ = l.extend(l) %}{% endfor %}",
        "{{ range(10 ** 9) }}", "{{ 9 ** 999999999 }}", "{{ [1] * 999999999 }}",
        "{{ 'a' | center(999999999) }}", "{{ '%999999999d' % 1 }}", "{{ '{:999999999}'.format(1) }}",
        "{{ '{:,.999999999f}'.format(1) }}", "{{ 'a\\tb'.expandtabs(999999999) }}",
        "{{ 'a'.zfill(999999999) }}", "{{ ('a\\n' * 99999) | indent(99999) }}",
        "{{ [1] | slice(999999999) | list }}", "{{ [1] | batch(999999999, 1) | list }}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}"}) {
    const auto rendered = RenderSource(source, ordered_json::object());
    EXPECT_FALSE(rendered.ok()) << source;
  }
  const std::string deep(5000, '(');
  EXPECT_THAT(RenderSource("{{ " + deep + "1" + std::string(5000, ')') + " }}", ordered_json::object())
                  .status()
                  .ToString(),
              HasSubstr("nesting"));
}

TEST(ChatTemplateTest, AValueNeverContainsItself) {
  for (const char* source : {
           "{% set n = namespace() %}{% set n.me = n %}{{ n }}",
           "{% set a = [] %}{% set _ = a.append(a) %}{{ a }}",
           "{% set a = [] %}{% set _ = a.append({'deep': [a]}) %}{{ a|tojson }}",
           "{% set a = [] %}{% set b = [a] %}{% set _ = a.extend([b]) %}{{ a == b }}",
           "{% set a = [] %}{% set _ = a.append(a.append) %}",
       }) {
    const auto text = RenderSource(source, ordered_json::object());
    ASSERT_FALSE(text.ok()) << source;
    EXPECT_THAT(text.status().message(), HasSubstr("would contain itself")) << source;
  }
  const auto deep =
      RenderSource("{% set n = namespace(a=[]) %}{% for i in range(1000) %}{% set n.a = [n.a] %}{% endfor %}",
                   ordered_json::object());
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(deep.status().message(), HasSubstr("nested more than"));
}

TEST(ChatTemplateTest, DeepAndSharedValuesEndWithinTheLimits) {
  std::string deep = "{% set a = [] %}", shared = "{% set a = [1] %}", bound = "{% set a = [] %}";
  for (int i = 0; i < 50'000; ++i) deep += "{% set a = [a] %}";
  for (int i = 0; i < 60; ++i) shared += "{% set a = [a, a] %}";
  for (int i = 0; i < 50'000; ++i) bound += "{% set a = [a.index] %}";
  EXPECT_TRUE(RenderSource(deep + "{{ a is defined }}", ordered_json::object()).ok());
  EXPECT_TRUE(RenderSource(bound, ordered_json::object()).ok());
  EXPECT_EQ(
      Joined(*RenderSource(deep + "{{ a | string | length < 1000 }}{{ a == [a] }}", ordered_json::object())),
      "TrueFalse");
  EXPECT_FALSE(RenderSource(shared + "{{ a }}", ordered_json::object()).ok());
  EXPECT_FALSE(RenderSource(shared + "{{ a | tojson }}", ordered_json::object()).ok());
  const auto chain = RenderSource(
      "{% set n = namespace(a=[]) %}{% for i in range(9999) %}{% set _ = n.a.append([]) %}{% set n.a = "
      "n.a[0] %}{% endfor %}",
      ordered_json::object());
  EXPECT_TRUE(chain.ok()) << chain.status();
}

TEST(ChatTemplateTest, MacrosInTheirOwnScopesAreFreed) {  // a leak fails the builds that check for leaks
  for (const char* source :
       {"{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
        "{% set n = namespace() %}{% for i in [1] %}{% macro m() %}{% endmacro %}{% set n.m = m %}{% endfor "
        "%}",
        "{% set n = namespace() %}{% for i in [1] recursive %}{% set n.l = loop %}{% endfor %}"}) {
    const auto text = RenderSource(source, ordered_json::object());
    EXPECT_TRUE(text.ok()) << text.status();
  }
  EXPECT_FALSE(
      RenderSource("{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}", ordered_json::object()).ok());
}

TEST(ChatTemplateTest, ErrorsGiveLineAndReason) {
  EXPECT_THAT(RenderSource("a\nb\n{{ nothing.at_all }}", ordered_json::object()).status().ToString(),
              ::testing::AllOf(HasSubstr("line 3"), HasSubstr("'nothing' is undefined")));
  EXPECT_THAT(RenderSource("x\n{% if a %}", ordered_json::object()).status().ToString(),
              HasSubstr("expected endif"));
  EXPECT_THAT(RenderSource("{{ 1 | nope }}", ordered_json::object()).status().ToString(),
              HasSubstr("no filter named 'nope'"));
}

// A refusal goes to the client; an error in a file of the model goes to the operator.
TEST(ChatTemplateTest, OnlyErrorsOfLoadingNameTheFile) {
  const auto parsed = ChatTemplate::Parse("{{ raise_exception('no') }}", "/srv/model/chat_template.jinja");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const absl::Status refused = (*parsed)->Render({.messages = ordered_json::array()}).status();
  EXPECT_THAT(refused.ToString(), HasSubstr("no"));
  EXPECT_THAT(refused.ToString(), ::testing::Not(HasSubstr("/srv")));
  EXPECT_THAT(ChatTemplate::Parse("{% if %}", "/srv/model/chat_template.jinja").status().ToString(),
              HasSubstr("/srv/model/chat_template.jinja"));
}

}  // namespace
}  // namespace numoe::text
