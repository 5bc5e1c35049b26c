#!/usr/bin/env bash
# Measures the repository's trained model in each expert format: held-out tasks, hand-written probes, perplexity, divergence.
#   tests/quality/run.sh [--format F]... [--json] [--count N]     (--help lists all)
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/lib/install.sh
{
  install_packages deploy/packages.txt
  build_preset release numoe-coordinator numoe-expert-worker numoe-perplexity
} >&2
exec python3 tests/quality/quality.py "$@"
