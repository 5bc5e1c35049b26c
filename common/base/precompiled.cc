// Has no code: a precompiled header belongs to a CMake target, and a target has a source.
