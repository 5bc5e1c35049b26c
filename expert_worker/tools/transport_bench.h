// `numoe-kernel-bench transport`: the shared-memory mailbox against gRPC over a Unix socket with the same
// payloads, in one run on pinned cores; each echo goes through a process of its own. Forks, so it runs before
// any thread or gRPC call of the program.
#pragma once

namespace numoe::worker {

/// Prints a table, or with `json` one object per line. The program's exit code.
int RunTransportBench(bool json);

}  // namespace numoe::worker
