#!/usr/bin/env python3
"""Renders chat templates with Python's Jinja2 under Hugging Face's environment, as the oracle for the C++ interpreter.

template_cases.py                 writes tests/unit/coordinator/text/chat/testdata/features.json: small templates of our own
template_cases.py --constructs    prints the same JSON for the lines of testdata/constructs.txt; --record writes constructs.json from it
template_cases.py --published D   prints the same JSON for the *.jinja files of folder D over many conversations
template_cases.py --continue [D]  the same for messages left open, by transformers' apply_chat_template: writes
                                  testdata/continue.json, or prints those of folder D (needs transformers)
"""
import datetime
import glob
import json
import os
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols  # noqa: F401
from jinja2.sandbox import SandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=lineno)


def environment():
    # Some published templates append to lists, and other servers accept them, so this is the plain sandbox and not the immutable one.
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime.now().strftime(f)
    return env


TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/coordinator/text/chat/testdata")
FEATURES = r"""
{{ 1 }} {{ 1.0 }} {{ 1.5e10 }} {{ 1e16 }} {{ 0.1 }} {{ 1e-5 }} {{ true }} {{ none }} {{ x }}|
{{ [1, 'a', none, true, 1.5, {'k': "it's"}] }}
{{ 'a' ~ 1 ~ none }} {{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ [1] + [2] }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -2 ** 2 }} {{ 2 ** -1 }}
{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 'a' in 'abc' }} {{ 1 not in [1] }} {{ 'k' in {'k': 1} }}
{{ not true or true and false }} {{ (not true) == false }} {{ 1 if x else 2 }} {{ 'y' if false }}
{{ [1,2,3][::-1] }} {{ 'héllo'[1:3] }} {{ 'abc'[-1] }} {{ [1,2,3][1:] }} {{ [1,2,3][:-1] }} {{ 'abc'[::2] }}
{{ {'a': 1, 'b': [2]}.b[0] }} {{ {'items': 3}.items() | length }} {{ {'items': 3}['items'] }}
{% set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}{% for i in [1] %}{% set a = 3 %}{% endfor %}{{ a }}
{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ k }}{{ v }} {% endfor %}
{% for i in [1,2,3,4] if i is even %}{{ i }}/{{ loop.length }}/{{ loop.revindex }} {% else %}none{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}
{% for i in [1,2,3] %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% macro f(a, b='d') %}[{{ a }}-{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}
{% macro g(n) %}{% if n > 0 %}{{ n }}{{ g(n - 1) }}{% endif %}{% endmacro %}{{ g(3) }}
{% set t %}  block {{ 1 }} {% endset %}[{{ t | trim }}]
{% filter upper %}abc {{ 'd' }}{% endfilter %}
{% generation %}gen{% endgeneration %}
{% raw %}{{ not }} {% this %}{% endraw %}
{# a comment #}after
   {# indented comment #}
x   {%- if true -%}   y   {%- endif -%}   z
  {% if true %}
  line
  {% endif %}
end
  {%+ if true %}kept{% endif +%}
end
{{- ' left' }} {{ 'right ' -}}   x
{{ {'b': 1, 'a': [1, 2.5, null, true, "é\n\"<>&'"]} | tojson }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}
{{ {'a': [1, {'b': 2}], 'c': {}} | tojson(indent=2) }}
{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }} {{ 'é😀' | tojson(ensure_ascii=true) }}
{{ 'héé' | length }} {{ [1,2] | length }} {{ {'a':1} | length }} {{ x | default('d') }} {{ '' | default('d', true) }}
{{ ['a', 'b'] | join(', ') }} {{ [{'n': 1}, {'n': 2}] | map(attribute='n') | list }} {{ ['a'] | map('upper') | join }}
{{ [3,1,2] | sort }} {{ ['b','A','c'] | sort }} {{ ['b','A'] | sort(reverse=true) }} {{ [{'k':2},{'k':1}] | sort(attribute='k') }}
{{ [1,2,1] | unique | list }} {{ ['a','A'] | unique | list }} {{ [1,2,3] | first }} {{ [1,2,3] | last }} {{ [1,2] | sum }}
{{ [{'a':1,'b':0},{'a':2,'b':1}] | selectattr('b') | list }} {{ [{'a':1},{'a':2}] | selectattr('a', 'equalto', 2) | list }}
{{ [{'a':1},{}] | selectattr('a', 'defined') | list }} {{ [{'a':1},{'a':2}] | rejectattr('a', '==', 2) | list }} {{ [0,1] | reject | list }}
{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %} {{ 'a-b' | replace('-', '+') }} {{ ' x ' | trim }} {{ 'abc' | capitalize }} {{ 'aBC dE' | title }}
{{ 'x\ny\n\nz' | indent(2) }}|{{ 'x\ny' | indent(2, first=true) }}|{{ 'x\ny' | indent }}
{{ '42' | int }} {{ 'x' | int }} {{ '3.7' | float }} {{ 3.7 | int }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ 3.5 | round }}
{{ [1,2,3,4,5] | batch(2) | list }} {{ 'abc' | reverse }} {{ [1,2] | reverse | list }} {{ 'a b c' | wordcount }} {{ [3,1] | max }} {{ [3,1] | min }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'xxabxx'.strip('x') }} {{ 'xa'.lstrip('x') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.upper() }} {{ 'a-b-c'.replace('-', '', 1) }} {{ 'abcabc'.find('c') }} {{ 'aXbX'.count('X') }}
{{ '{} and {}'.format(1, 'b') }} {{ '-'.join(['a','b']) }} {{ {'a':1}.get('a') }} {{ {'a':1}.get('b', 5) }} {{ {'a':1}.keys() | list }} {{ {'a':1}.values() | list }}
{{ x is defined }} {{ 1 is defined }} {{ none is none }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ 'a' is sequence }} {{ 1 is number }} {{ true is boolean }}
{{ true is true }} {{ 1 is true }} {{ 1 is integer }} {{ 1.0 is float }} {{ 3 is odd }} {{ 3 is divisibleby 3 }} {{ 2 is in [1,2] }} {{ 'a' is not string }} {{ 1 is eq 1 }}
{% set l = [] %}{% set _ = l.append(1) %}{% set _ = l.append(2) %}{{ l }}{{ l.pop(0) }}{{ l }}
{{ messages[0]['role'] }} {{ messages[0].role }} {{ messages[0].missing is defined }} {{ messages | length }} {{ messages[-1].content }}
{{ messages[0].missing.deeper }}
{{ undefined_name.attribute }}
{{ raise_exception('no such role') }}
{{ 1 + 'a' }}
{{ 'a' | nofilter }}
{% if x %}
{{ [1, 2 }}
{% for m in messages %}{% if loop.first %}F{% elif loop.last %}L{% else %}M{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set d = dict(x=1) %}{{ d.x }} {{ range(3) | list }} {{ range(5, 0, -2) | list }}
{{ "esc \" \\ \t \u00e9 'q'" }} {{ 'a' 'b' }} {{ ("a", 1)[0] }} {{ (1) }} {{ 1_000 }}
{{ '\u3000 a\u00a0b\u2003\x1c'.strip() }}|{{ '\u3000a '.lstrip() }}|{{ ' a\u3000'.rstrip() }}|{{ ' a\u3000b\u2028c'.split() }}|{{ 'x\u1680y\u205fz\x85'.split(none, 1) | join('/') }}|{{ '\u200ba\ufeff' | trim }}
{{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}
"""

MESSAGES = [dict(role="system", content="Be brief."), dict(role="user", content="Hällo <|im_end|> 你好"),
            dict(role="assistant", content="Hi"), dict(role="user", content="")]


def render(source, context):
    try:
        return dict(output=environment().from_string(source).render(**context))
    except Exception as error:  # noqa: BLE001: whatever Jinja2 refuses, we must refuse, too
        return dict(error=f"{type(error).__name__}: {error}")


def feature_sources():
    lines = FEATURES.strip("\n").split("\n")
    yield from lines
    # White-space control needs several lines; these are joined as they stand.
    for i in range(len(lines) - 3):
        if any(mark in line for line in lines[i:i + 4] for mark in ("{%-", "-%}", "{%+", "+%}", "{#", "  {%")):
            yield "\n".join(lines[i:i + 4]) + "\n"


# One template a line; \u2424 and \u240d stand for a line feed and a carriage return.
def construct_cases():
    with open(os.path.join(TESTDATA, "constructs.txt"), encoding="utf-8") as f:
        sources = [line.rstrip("\n").replace("\u2424", "\n").replace("\u240d", "\r") for line in f]
    context = dict(messages=MESSAGES)
    return [dict(template=s, context=context, **render(s, dict(context, bos_token="<B>", eos_token="<E>"))) for s in sources]


def conversations():
    tool = dict(type="function", function=dict(name="get_weather", description="Wetter für \"Städte\"", parameters=dict(
        type="object", required=["city"], properties=dict(city=dict(type="string"), days=dict(type="integer")))))
    call = dict(id="functions.get_weather:0", type="function", function=dict(name="get_weather", arguments=dict(city="Köln", days=2)))
    user, system = dict(role="user", content="Wie wird's?\n"), dict(role="system", content="Du bist kurz.")
    answer = dict(role="assistant", content="Gut.", reasoning_content="kurz nachgedacht")
    used = dict(role="assistant", content="", tool_calls=[call])
    result = dict(role="tool", tool_call_id="functions.get_weather:0", name="get_weather", content='{"t": 21}')
    histories = [[user], [system, user], [user, answer, user], [system, user, answer, dict(role="user", content="")],
                 [user, used, result], [system, user, used, result, answer, user], [user, used, result, used, result],
                 [user, dict(role="assistant", content="<think>a</think>b"), user], [dict(role="user", content="日本語 <|im_end|> \u0000?")],
                 [system, user, dict(role="assistant", content="x"), dict(role="user", content="y")] * 5]
    for messages in histories:
        for tools in (None, [tool], [tool, tool]):
            for extra in ({}, dict(thinking=True), dict(thinking=False), dict(enable_thinking=False)):
                for prompt in (True, False):
                    yield dict(messages=messages, tools=tools, add_generation_prompt=prompt, **extra)


# Templates that print content unchanged, trimmed, after a split, in the middle, twice, changed and not at all.
CONTINUED = ["{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}",
             "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}tail",
             "{% for m in messages %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}<e>\n{% endfor %}",
             "{% for m in messages %}{{ m.role + ' ' + m.content.strip() + eos_token }}{% endfor %}",
             "{% for m in messages %}{{ m.content }}|{{ m.content }} {% endfor %}",
             "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
             "{% for m in messages %}{{ m.role }}{% endfor %}",
             "{% for m in messages %}{{ m.content | tojson }}{% endfor %}{% if add_generation_prompt %}G{% endif %}"]
OPEN_ENDS = ["Hi", "Hi ", " Hi", "Hi \n\n ", "", "  ", "Hi\u3000", "\u00a0Hi\u2003", "<think>a</think>\nb", "CONTINUE_FINAL_MESSAGE_TAG", "a\"b\\"]


def continued(source, context):
    from transformers.utils.chat_template_utils import render_jinja_template
    try:
        rendered, _ = render_jinja_template(
            conversations=[context["messages"]], chat_template=source, continue_final_message=True, tools=context.get("tools"),
            **{k: v for k, v in context.items() if k not in ("messages", "tools")}, bos_token="<B>", eos_token="<E>")
        return dict(output=rendered[0])
    except Exception as error:  # noqa: BLE001
        return dict(error=f"{type(error).__name__}: {str(error)[:100]}")


def continue_cases(folder):
    sources = [(s, s) for s in CONTINUED]
    if folder:
        sources = [(p, open(p, encoding="utf-8").read()) for p in sorted(glob.glob(os.path.join(folder, "*.jinja")))]
    for name, source in sources:
        for end in OPEN_ENDS:
            for role in ("assistant", "user"):
                context = dict(messages=[*MESSAGES[:2], dict(role=role, content=end)])
                yield dict(template=source, name=name, context=context, **continued(source, context))


def main():
    if len(sys.argv) >= 2 and sys.argv[1] == "--continue":
        cases = list(continue_cases(sys.argv[2] if len(sys.argv) == 3 else None))
        if len(sys.argv) == 3:
            return json.dump(cases, sys.stdout)
        out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/coordinator/text/chat/testdata/continue.json")
        with open(out, "w", encoding="utf-8") as f:
            json.dump(cases, f, ensure_ascii=False, indent=0)
            f.write("\n")
        return None
    if len(sys.argv) == 2 and sys.argv[1] == "--constructs":
        return json.dump(construct_cases(), sys.stdout)
    if len(sys.argv) == 2 and sys.argv[1] == "--record":
        with open(os.path.join(TESTDATA, "constructs.json"), "w", encoding="utf-8") as f:
            json.dump([{k: v for k, v in c.items() if k != "context"} for c in construct_cases()], f, ensure_ascii=False, indent=0)
            f.write("\n")
        return None
    if len(sys.argv) == 3 and sys.argv[1] == "--published":
        cases = []
        for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.jinja"))):
            with open(path, encoding="utf-8") as f:
                source = f.read()
            for context in conversations():
                cases.append(dict(template=source, name=os.path.basename(path), context=context,
                                  **render(source, dict(context, bos_token="<B>", eos_token="<E>"))))
        json.dump(cases, sys.stdout)
        return None
    cases = [dict(template=s, context=dict(messages=MESSAGES), **render(s, dict(messages=MESSAGES, bos_token="<B>", eos_token="<E>")))
             for s in feature_sources()]
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/coordinator/text/chat/testdata/features.json")
    with open(out, "w", encoding="utf-8") as f:
        json.dump(cases, f, ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
