#include "coordinator/clients/bench/bench_texts.h"

#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "common/base/check.h"

namespace numoe::clients {
namespace {

constexpr std::string_view kEnglish = R"(
The coordinator does attention, routing, shared experts and the API; one worker process for each memory node owns its
slice of the quantised experts. A worker that dies pauses the requests; they go on when it is back, or fail after a
deadline. Nothing is sent twice, and nothing that was said is taken back.

When a client asks, its conversation becomes the prompt: a template writes the turns one after another, a tokeniser cuts
the text into pieces and every piece into tokens. The scheduler then decides which sequences take part in the next step,
how many tokens of a long prompt are read at once, and whose memory may be reused. Don't confuse the two: a prompt that's
already in the cache costs almost nothing, while one that isn't has to be read from its first word.

"How fast is it?" is the wrong question to begin with. Ask how fast the memory is, because a token has to read every
weight that it meets; what remains is arithmetic, and arithmetic is cheap. On a machine with twelve channels of DDR5-4800
we measured 410 GB/s of 460.8 GB/s, which is 89% of what the data sheet promises; with one channel missing, the figure
fell by more than a tenth. We've learned to look for such things first.

In the spring of 1893 a young engineer travelled from Zürich to Chicago to see the great exhibition. He wrote home about
the lamps, the engines, the crowds, and the noise; about elevators that rose without a sound and kitchens without fire. "It
isn't the machines that astonish me," he said, "but that nobody looks at them any more." His letters, kept in a wooden box
for eighty years, were found by his granddaughter, who couldn't read his handwriting and had them copied by a friend.

- Errors say what was found, what was expected, and what to do about it.
- Limits have names and units, e.g. `queue_depth_max = 256` or `deadline_ms`.
- A header is a contract: who owns what, which threads may call, what must hold before.

    for (int i = 0; i < count; ++i) {
      total += values[i] * weights[i];  // the compiler turns this into vector code
    }

The house stood at the end of the lane, behind two walnut trees that old Mr. O'Brien had planted before the war. Nobody
lived there now, though every Thursday morning a woman in a grey coat unlocked the door, opened the windows on the garden
side, and sat at the kitchen table for exactly an hour. Children said she was counting money. In truth she'd been reading
the same novel, slowly, for eleven years, and she hoped never to finish it.

Statistics deserve the same care as code. A mean hides the slowest request; a maximum shows nothing else. We report the
median, the ninety-fifth and the ninety-ninth percentile, state how often each measurement was repeated, and keep the raw
numbers (see results/2024-11-05.csv) so that others may draw conclusions of their own. Please note: https://example.org/a?b=c
is an example, not an address.
)";

constexpr std::string_view kChinese =
    "大型语言模型把文字切成小块，再把每一块变成数字。中文没有空格，所以一句话往往就是一长串汉字，直到遇见标点"
    "才停下来。"
    "分词器必须在几微秒之内决定哪些字应该合在一起，哪些字应该分开。如果它太慢，用户就要在屏幕前等待；如果它出"
    "错，模型就会"
    "误解问题的意思。\n\n"
    "春天来了，河边的柳树发出嫩绿的新芽。老人牵着孙子的手，沿着石板路慢慢往前走。孩子问：“爷爷，燕子为什么每"
    "年都要回来？”"
    "老人笑了笑，说：“因为它们记得自己的家。”远处传来寺庙的钟声，一群鸽子从屋顶飞过，消失在淡蓝色的天空里。\n"
    "\n"
    "2023年，这家公司的营业收入达到48.6亿元，同比增长12.5%，净利润为7."
    "3亿元。董事长在股东大会上表示，未来三年将继续加大"
    "研发投入，重点布局人工智能、新能源汽车和高端装备制造等领域。分析师认为，原材料价格上涨以及汇率波动仍然是"
    "主要风险。\n\n"
    "做红烧肉要选肥瘦相间的五花肉，切成四厘米见方的块，冷水下锅焯去血沫。锅中放少许油，加入冰糖，小火炒到琥珀"
    "色，然后倒入"
    "肉块翻炒，使每一面都均匀上色。接着加料酒、生抽、老抽、葱段、姜片和八角，添热水没过肉面，盖上锅盖炖一个小"
    "时。最后转大火"
    "收汁，撒上芝麻即可出锅。\n\n"
    "唐朝是中国古代诗歌最繁荣的时期。李白的诗豪放飘逸，杜甫的诗沉郁顿挫，王维的诗清新淡雅。长安城里商贾云集，"
    "来自波斯、"
    "天竺和日本的使者络绎不绝。夜晚的坊市灯火通明，酒楼里琵琶声声，胡姬起舞，文人墨客举杯吟咏，留下了无数脍炙"
    "人口的名篇。\n\n"
    "在计算机系统中，内存带宽常常比运算速度更重要。处理器每生成一个词，都必须读取它所用到的全部权重。把专家放"
    "在各个节点的"
    "本地内存里，可以避免跨节点访问带来的延迟。调度程序负责决定哪些请求进入下一步，缓存则保存已经计算过的前缀"
    "，从而减少重复"
    "劳动。用户可以通过OpenAI兼容的API接口提交请求，也可以在浏览器中直接对话。\n\n"
    "医生提醒，冬季是呼吸道疾病高发的季节，老年人和儿童应当注意保暖，室内要经常通风，保持适宜的湿度。若出现持"
    "续高烧、咳嗽或"
    "胸闷等症状，请及时前往医院就诊，切勿自行服用抗生素。饮食方面宜清淡，多吃蔬菜水果，保证充足的睡眠。\n\n"
    "那年秋天，我独自坐火车去西北旅行。窗外是连绵起伏的黄土高原，偶尔能看见几孔窑洞和晾晒的玉米。对面的姑娘抱"
    "着一把旧吉他，"
    "轻轻哼着我没听过的歌。她告诉我，她要去敦煌临摹壁画，已经准备了整整五年。天黑以后，车厢里渐渐安静，只剩下"
    "铁轨有节奏的"
    "响声。我忽然觉得，人生最珍贵的东西，大概就是这种毫无目的的相逢。\n\n"
    "法律规定，任何组织和个人不得非法收集、使用、加工、传输他人个人信息，不得泄露或者篡改。违反本条规定，情节"
    "严重的，由主管"
    "部门责令改正，处以罚款，并可以暂停相关业务、停业整顿；构成犯罪的，依法追究刑事责任。\n\n";

// Replaces std::uniform_int_distribution, whose results differ between libraries.
size_t Below(std::mt19937& random, size_t n) {
  NUMOE_DCHECK_GT(n, size_t{0});
  return random() % n;
}

std::vector<std::string_view> Words(std::string_view text) {  // each with the white space after it
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t i = 1; i <= text.size(); ++i) {
    const auto is_space = [&](size_t at) { return text[at] == ' ' || text[at] == '\n'; };
    if (i == text.size() || (is_space(i - 1) && !is_space(i))) {
      words.push_back(text.substr(begin, i - begin));
      begin = i;
    }
  }
  return words;
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  size_t begin = 0;
  for (size_t i = 1; i <= text.size(); ++i) {
    if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      characters.push_back(text.substr(begin, i - begin));
      begin = i;
    }
  }
  return characters;
}

std::string NewWord(std::mt19937& random) {
  static constexpr std::string_view kBegin[] = {"b", "cl", "d", "fr", "gr", "h",  "k", "l", "m",
                                                "n", "pr", "r", "st", "tr", "sh", "v", "w", "z"};
  static constexpr std::string_view kEnd[] = {"an",  "ar", "el", "en", "er",  "est", "ick", "in",
                                              "ing", "is", "o",  "on", "oth", "ule", "um",  "ation"};
  std::string word;
  const auto syllable = [&] {
    word.append(kBegin[Below(random, std::size(kBegin))]).append(kEnd[Below(random, std::size(kEnd))]);
  };
  const size_t kind = Below(random, 8);
  if (kind == 0) return std::to_string(random() % 100'000);
  for (size_t n = 2 + Below(random, 2); n > 0; --n) syllable();
  if (kind == 1) {
    word += '_';
    syllable();
  }
  if (kind == 2) word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

std::string Chain(const std::vector<std::string_view>& units, size_t bytes, size_t new_word_every) {
  NUMOE_CHECK(!units.empty());
  std::map<std::string_view, std::vector<size_t>> places;  // of each unit, the places after it
  for (size_t i = 0; i < units.size(); ++i) places[units[i]].push_back((i + 1) % units.size());
  std::mt19937 random(5);
  std::string text;
  size_t at = 0;
  while (text.size() < bytes) {
    text += units[at];
    if (new_word_every > 0 && Below(random, new_word_every) == 0) text.append(NewWord(random)).append(" ");
    const std::vector<size_t>& next = places[units[at]];
    at = next[Below(random, next.size())];
  }
  return text;
}

}  // namespace

std::string EnglishText(size_t bytes) { return Chain(Words(kEnglish), bytes, /*new_word_every=*/12); }

std::string ChineseText(size_t bytes) { return Chain(Characters(kChinese), bytes, /*new_word_every=*/0); }

}  // namespace numoe::clients
