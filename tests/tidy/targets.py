"""Compares the DEPS of every target of the product with layers.txt, as common/cmake/NumoeTargets.cmake promises.

A target belongs to the room whose CMakeLists.txt declares it. The targets of this project that it links must belong to the same room,
to common/base, or to a room that its own may include according to layers.txt. check(tidy, edges, room_of) reports findings through
tidy.say.
"""
import re

ROOMS = ("common/", "coordinator/", "expert_worker/", "proto/")
CALL = re.compile(r"\b(numoe_(?:library|binary|kernel|cuda_library|tests|fuzz)|add_library|target_link_libraries)\s*\(([^()]*)\)")
WORDS = {"PUBLIC", "PRIVATE", "INTERFACE", "STATIC", "OBJECT", "IMPORTED", "GLOBAL"}


def without_comments(text):
    """Removes comments without changing line numbers."""
    return re.sub(r"#[^\n]*", "", text)


def calls(tidy, path):
    """[(command, words, line)] of a CMakeLists.txt. Generator expressions have no parentheses, so they are plain words."""
    text = without_comments(tidy.read(path))
    return [(match[1], match[2].split(), text.count("\n", 0, match.start()) + 1) for match in CALL.finditer(text)]


def links(command, words):
    """What a call links: the words after DEPS up to the next keyword, or all of target_link_libraries."""
    if command == "target_link_libraries":
        return [word for word in words[1:] if word not in WORDS]
    deps, taking = [], False
    for word in words[1:]:
        if word.isupper() and "$" not in word:
            taking = word == "DEPS"
        elif taking:
            deps.append(word)
    return deps


class Targets:
    """The rooms that declare targets; a name with ${variables} stands for every name that it can become."""

    def __init__(self, tidy):
        self.exact, self.patterns = {}, []
        for path in tidy.files:
            if not path.endswith("CMakeLists.txt"):
                continue
            for command, words, _ in calls(tidy, path):
                if command == "target_link_libraries" or not words:
                    continue
                for name in [words[0], words[0] + "_host"] if command == "numoe_cuda_library" else [words[0]]:
                    self.add(name, path)

    def add(self, name, path):
        if "$" not in name:
            self.exact[name] = path
            return
        parts = [re.escape(part) for part in re.split(r"\$\{\w+\}", name)]
        self.patterns.append((re.compile(r"\w+".join(parts)), path))

    def declared_in(self, name):
        """The CMakeLists.txt that declares a target; None for libraries of other projects, or a name in a variable."""
        if name in self.exact:
            return self.exact[name]
        return next((path for pattern, path in self.patterns if pattern.fullmatch(name)), None)


def check(tidy, edges, room_of):
    targets = Targets(tidy)
    for path in tidy.files:
        if not path.endswith("CMakeLists.txt") or not path.startswith(ROOMS):
            continue
        room = room_of(path)
        for command, words, line in calls(tidy, path):
            for dep in links(command, words):
                where = targets.declared_in(dep)
                if where is None or where == "CMakeLists.txt":
                    continue
                target = room_of(where)
                if not where.startswith(ROOMS):
                    tidy.say(path, line, f"{words[0]} links {dep} of {where}: the product does not link tests")
                elif target not in (room, "common/base") and target not in edges.get(room, []):
                    tidy.say(path, line, f"{words[0]} of {room or 'no room'} may not link {dep} of {target} (tests/tidy/layers.txt)")
