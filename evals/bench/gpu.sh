#!/bin/sh
# On a machine with a CUDA device, in under eight minutes and without downloads: the device tests, then decode and
# T(rows) at 1B and 8B shapes with random weights against the bandwidth floor. One JSON line, to evals/results/gpu.json.
#
#     PYTHON=.venv/bin/python evals/bench/gpu.sh
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
tests=passed
timeout 200 "$python" -m pytest -q -m "cuda and not slow" tests/specdec_core || tests="failed (exit $?)"
timeout 270 "$python" -m evals.bench.gpu --device-tests "$tests" --output evals/results/gpu.json "$@"
[ "$tests" = passed ]
