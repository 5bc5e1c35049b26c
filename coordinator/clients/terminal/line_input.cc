#include "coordinator/clients/terminal/line_input.h"

#include <histedit.h>
#include <termios.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "common/base/check.h"

namespace numoe::clients {
namespace {

constexpr int kHistoryLinesMax = 1000;
constexpr std::string_view kBlock = "\"\"\"";
constexpr char kContinued[] = ". ";

class PlainInput final : public LineInput {
  std::optional<std::string> ReadLine(const std::string& prompt) override {
    if (isatty(STDIN_FILENO) == 1 && write(STDERR_FILENO, prompt.data(), prompt.size()) < 0)
      return std::nullopt;
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
};

// Makes Ctrl-C a key while a line is edited, so that it can drop the line instead of ending the program.
// libedit's own setty does not change the terminal.
class InterruptKey {
 public:
  InterruptKey() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios changed = before_;
    changed.c_cc[VINTR] = _POSIX_VDISABLE;
    changed_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &changed) == 0;
  }
  InterruptKey(const InterruptKey&) = delete;
  InterruptKey& operator=(const InterruptKey&) = delete;
  ~InterruptKey() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

 private:
  termios before_ = {};
  bool changed_ = false;
};

class EditedInput final : public LineInput {
 public:
  EditedInput() : edit_(el_init("numoe-chat", stdin, stdout, stderr)), history_(history_init()) {
    NUMOE_CHECK(edit_ != nullptr && history_ != nullptr);
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLinesMax);
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(
        edit_, EL_PROMPT, +[](EditLine* edit) {
          EditedInput* self = nullptr;
          el_get(edit, EL_CLIENTDATA, &self);
          return self->prompt_.data();
        });
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_SIGNAL, 1);  // restores the terminal when a signal stops or ends the program
    el_set(
        edit_, EL_ADDFN, "interrupt", "Drop the line", +[](EditLine* edit, int) -> unsigned char {
          EditedInput* self = nullptr;
          el_get(edit, EL_CLIENTDATA, &self);
          const LineInfo* line = el_line(edit);
          self->dropped_ = line->lastchar > line->buffer;
          return CC_EOF;
        });
    el_set(edit_, EL_BIND, "^C", "interrupt", nullptr);
    el_source(edit_, nullptr);  // reads the person's ~/.editrc
  }
  ~EditedInput() override {
    history_end(history_);
    el_end(edit_);
  }

 private:
  std::optional<std::string> ReadLine(const std::string& prompt) override {
    prompt_ = prompt;
    dropped_ = false;
    int size = 0;
    const InterruptKey key;
    // This comes before the prompt, which el_gets shows first: a Ctrl-D that is typed before the terminal
    // passes keys on would be lost.
    el_set(edit_, EL_PREP_TERM, 1);
    const char* text = el_gets(edit_, &size);
    if (text == nullptr || size <= 0) {
      if (write(STDOUT_FILENO, "\n", 1) < 0 || !dropped_) return std::nullopt;
      return "";
    }
    std::string line(text, static_cast<size_t>(size));
    if (!line.empty() && line.back() == '\n') line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return line;
  }

  EditLine* const edit_;
  History* const history_;
  std::string prompt_;
  bool dropped_ = false;  // the last line ended by Ctrl-C and was not empty
};

}  // namespace

std::unique_ptr<LineInput> LineInput::Create() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1)
    std::setlocale(LC_CTYPE, "C.UTF-8");  // containers have no locale, but people type UTF-8
  const char* terminal = std::getenv("TERM");
  const bool able = terminal != nullptr && std::strcmp(terminal, "dumb") != 0 && isatty(STDIN_FILENO) == 1 &&
                    isatty(STDOUT_FILENO) == 1;
  if (able) return std::make_unique<EditedInput>();
  return std::make_unique<PlainInput>();
}

std::optional<std::string> LineInput::Read(const std::string& prompt) {
  std::optional<std::string> line = ReadLine(prompt);
  if (!line || line->compare(0, kBlock.size(), kBlock) != 0) return line;
  std::string block = line->substr(kBlock.size());
  while (block.size() < kBlock.size() ||
         block.compare(block.size() - kBlock.size(), kBlock.size(), kBlock) != 0) {
    line = ReadLine(kContinued);
    if (!line) return line;
    block += '\n' + *line;
  }
  block.resize(block.size() - kBlock.size());
  return block;
}

}  // namespace numoe::clients
