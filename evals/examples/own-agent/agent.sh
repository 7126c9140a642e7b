#!/bin/sh
# A shell command as agent: the attempt comes as JSON on standard input, the answer goes to standard output.
#
#   loopeng run evals/examples/own-agent/command.yaml     # needs: curl, jq, pip install 'loopeng[serve]'
#
# The environment says where the attempt's engine is, as any client of the OpenAI protocol expects it; requests that
# name no seed, temperature or max_tokens get the attempt's.
set -eu

jq --slurpfile prices prices.json '
    "One \(.input.product) costs \($prices[0][.input.product]) euros.\n\n" as $fact
    | {model: env.LOOPENG_MODEL, messages: (.messages | last.content |= $fact + .)}' |
    curl --silent --show-error --fail-with-body "$OPENAI_BASE_URL/chat/completions" \
        --header "Authorization: Bearer $OPENAI_API_KEY" --header "Content-Type: application/json" --data @- |
    jq --raw-output --exit-status '.choices[0].message.content'
