"""Mistakes in the keys of a task file: YAML, schema, agent and engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loopeng.task_texts import GOOD, Broken, check_mistake

BROKEN = [
    # YAML
    Broken("tab", "  name: describe", "\tname: describe", "\tname: describe", "a tab", "spaces"),
    Broken("duplicate key", "name: shop", "name: shop\nname: shop2", "shop2", "stands here twice (first on line 2)"),
    Broken("syntax", "name: shop", "name: [shop", "prompt:", "not YAML"),
    Broken(
        "unquoted braces", 'value: "{{ product }}"', "value: {{ product }}", "names-it", "where a key should", "quotes"
    ),
    Broken("two documents", "approval:", "---\napproval:", "---", "only one document", "---"),
    Broken("unknown alias", "name: shop", "name: *shop", "*shop", "not YAML"),
    Broken("tag", "name: shop", "name: !!python/name:os.system shop", "name: !!", "tag", "remove it"),
    Broken("tagged mapping", "pass: {mode: all}", "pass: !x {mode: all}", "pass:", "the tag '!x'", "remove it"),
    Broken("odd character", "name: shop", "name: sh\0op", "op", "a character that no text holds"),
    Broken("merge key", "limits: {attempts: 300}", "limits:\n  <<: {attempts: 3}", "<<", "merge", "write the keys out"),
    Broken("empty file", GOOD, "", "", "the file is empty"),
    Broken("only a comment", GOOD, "# nothing\n", "", "the file is empty"),
    Broken("a list", GOOD, "- version: 1\n", "- version", "mapping", "version: 1"),
    # keys
    Broken(
        "unknown key",
        "evaluators:",
        "evalutors: []\nevaluators:",
        "evalutors",
        "unknown key 'evalutors'",
        "'evaluators'",
    ),
    Broken(
        "unknown nested key",
        "max_attempts: 3",
        "max_atempts: 3",
        "max_atempts",
        "unknown key 'max_atempts' in loop",
        "'max_attempts'",
    ),
    Broken(
        "key elsewhere",
        "name: shop",
        "name: shop\nmax_tokens: 3",
        "max_tokens: 3",
        "unknown key 'max_tokens'",
        "under 'engine'",
    ),
    Broken(
        "unrelated key", "name: shop", "name: shop\nxyzzy: 3", "xyzzy", "unknown key 'xyzzy'", "known keys: version"
    ),
    Broken("missing key", "name: shop\n", "", "version: 1", "name is missing"),
    Broken("missing nested key", "  name: describe\n", "", "prompt:", "prompt.name is missing"),
    Broken("a name of traffic", "name: shop", "name: live:shop", "live:shop", "an application's traffic", "leave out"),
    Broken("version", "version: 1", "version: 2", "version", "version must be 1"),
    Broken(
        "text for number",
        "max_tokens: 64",
        "max_tokens: many",
        "max_tokens",
        "engine.max_tokens must be a whole number, not 'many'",
    ),
    Broken("quoted number", "max_tokens: 64", 'max_tokens: "64"', "max_tokens", "must be a whole number"),
    Broken("true for number", "max_tokens: 64", "max_tokens: true", "max_tokens", "must be a whole number, not true"),
    Broken("number for text", "name: shop", "name: 7", "name: 7", "name must be text, not 7", "quotes"),
    Broken(
        "out of range",
        "max_attempts: 3",
        "max_attempts: 0",
        "max_attempts",
        "loop.max_attempts must be at least 1, not 0",
    ),
    Broken("list for mapping", "pass: {mode: all}", "pass: [all]", "pass:", "pass must be a mapping"),
    Broken("empty mapping", "pass: {mode: all}", "pass:", "pass:", "pass must be a mapping (key: value), not empty"),
    Broken("mode", "mode: all", "mode: weigthed", "weigthed", "pass.mode must be", "'weighted'"),
    Broken("retry policy", "retry: escalate", "retry: escalte", "retry", "loop.retry", "'escalate'"),
    Broken("duration", "expires: 7d", "expires: soon", "approval", "'soon' is not a duration"),
    Broken("no time", "expires: 7d", "expires: 0s", "approval", "approval.expires: '0s' must be more than 0s"),
    Broken("too much time", "expires: 7d", "expires: 999999w", "approval", "longer than ten years"),
    Broken("infinite number", "[0, 0.4, 0.8]", "[0, .inf]", "temperatures", "temperatures[1] must be a finite number"),
    Broken("absurd number", "max_tokens: 64", "max_tokens: 9000000", "max_tokens", "at most 1,000,000, not 9000000"),
    Broken(
        "threshold of no mode",
        "pass: {mode: all}",
        "pass: {threshold: 0.5}",
        "pass",
        "pass.threshold does not go with mode all",
        "mode: weighted",
    ),
    Broken("run.on", "on: final", "on: frist", "run:", "run.on must be", "'first'"),
    Broken(
        "no evaluator",
        GOOD[GOOD.index("evaluators:") : GOOD.index("pass:")],
        "evaluators: []\n",
        "evaluators",
        "must not be empty",
    ),
    # agent and engine
    Broken(
        "no program",
        "agent: llm",
        "agent: {command: [./agent, run]}",
        "agent",
        "agent.command: there is no program",
    ),
    Broken("program not on PATH", "agent: llm", "agent: {command: [no-such-program-here]}", "agent", "on PATH"),
    Broken("empty command", "agent: llm", "agent: {command: []}", "agent", "agent.command: must not be empty"),
    Broken("no program named", "agent: llm", "agent: {command: [' ']}", "agent", "which is empty here"),
    Broken("command as text", "agent: llm", "agent: {command: cat}", "agent", "agent.command must be a list"),
    Broken("agent key", "agent: llm", "agent: {comand: [cat]}", "agent", "unknown key 'comand'", "'command'"),
    Broken(
        "two kinds of agent",
        "agent: llm",
        "agent: {command: [cat], python: 'json:dumps'}",
        "agent",
        "does not go with the key 'command'",
    ),
    Broken(
        "key of another kind",
        "agent: llm",
        "agent: {python: 'json:dumps', env: [HOME]}",
        "agent",
        "'env' goes with the key 'command', not with kind python",
    ),
    Broken("limit without agent", "agent: llm", "agent: {time_limit_s: 3}", "agent", "not with kind llm"),
    Broken("no time", "agent: llm", "agent: {command: [cat], time_limit_s: 0}", "agent", "must be more than 0"),
    Broken("class as agent", "agent: llm", 'agent: {python: "json:JSONEncoder"}', "agent", "is a class", "object"),
    Broken("agent kind", "agent: llm", "agent: llmm", "agent", "agent must be", "'llm'"),
    Broken("python agent without code", "agent: llm", "agent: python", "agent", "needs the key 'python'"),
    Broken(
        "no module",
        "agent: llm",
        'agent: {python: "no_such_mod:run"}',
        "agent",
        "there is no module 'no_such_mod'",
        "beside the task file",
    ),
    Broken(
        "no attribute",
        "agent: llm",
        'agent: {python: "json:dmups"}',
        "agent",
        "module 'json' has no 'dmups'",
        "'dumps'",
    ),
    Broken("no function", "agent: llm", 'agent: {python: "string:digits"}', "agent", "not a function"),
    Broken("no reference", "agent: llm", 'agent: {python: "agent.py"}', "agent", "not a reference", "module:function"),
    Broken("engine kind", "kind: specdec", "kind: specdek", "kind", "engine.kind must be", "'specdec'"),
    Broken("scripted without script", "kind: specdec", "kind: scripted", "engine:", "needs the key 'script'"),
    Broken("script missing", "kind: specdec", "kind: scripted\n  script: replies.yaml", "script:", "there is no file"),
    Broken(
        "script without scripted",
        "kind: specdec",
        "kind: specdec\n  script: replies.yaml",
        "script:",
        "does not go with kind specdec",
    ),
    Broken(
        "model name",
        "drafter: auto",
        "model: smollm2-135",
        "model",
        "engine.model: unknown model 'smollm2-135'",
        "did you mean 'smollm2-135m'",
    ),
    Broken("no such model", "drafter: auto", "model: gpt", "model", "unknown model 'gpt'", "a hub id, org/name"),
    Broken("no gguf file", "drafter: auto", "model: ./x.gguf", "model", "there is no file or folder", "begin at"),
    Broken("no model folder", "drafter: auto", "model: /no/such/model", "model", "there is no file or folder"),
    Broken("nobody's home", "drafter: auto", "model: ~nobody-has-it/x", "model", "there is no file or folder"),
    Broken("folder without model", "drafter: auto", "model: .", "model", "has no config.json", "safetensors"),
    Broken("no model file", "drafter: auto", "model: products.jsonl", "model", "is no .gguf file"),
    Broken("endless name", "drafter: auto", f"model: {'x' * 5000}", "model", "unknown model"),
    Broken("device", "drafter: auto", "device: cudo", "device", "unknown device 'cudo'", "did you mean 'cuda'"),
    Broken("dtype", "drafter: auto", "dtype: float23", "dtype", "engine.dtype must be", "'float32'"),
    Broken("drafter", "drafter: auto", "drafter: sufix", "drafter", "unknown drafter 'sufix'", "'suffix'"),
    Broken(
        "drafter's model", "drafter: auto", "drafter: model:smollm2-135", "drafter", "unknown model", "'smollm2-135m'"
    ),
    Broken("no draft model", "drafter: auto", "drafter: [suffix, 'model:']", "drafter", "engine.drafter: unknown"),
    Broken("no draft folder", "drafter: auto", "drafter: model:./small", "drafter", "no file or folder", "begin at"),
    Broken("no drafter", "drafter: auto", "drafter: []", "drafter", "must not be an empty list", "plain decoding"),
    Broken("context", "max_tokens: 64", "context_length: 1", "context_length", "must be at least 2, not 1"),
    Broken("drafter type", "drafter: auto", "drafter: 3", "drafter", "engine.drafter must be text or a list"),
    Broken(
        "two temperatures",
        "max_tokens: 64",
        "max_tokens: 64\n  temperature: 0.7",
        "temperature: 0.7",
        "both say",
        "keep one",
    ),
    Broken(
        "resample cold",
        "retry: escalate\n  temperatures: [0, 0.4, 0.8]",
        "retry: resample\n  temperatures: [0.8, 0]",
        "temperatures",
        "(attempt 2)",
        "a retry must change something",
    ),
    Broken("reflector", "reflector: hints", "reflector: hint", "improve", "improve.reflector", "'hints'"),
    Broken(
        "candidates of hints",
        "reflector: hints",
        "reflector: hints, candidates: 2",
        "improve",
        "improve.candidates: the reflector hints makes one change",
        "write reflector: llm",
    ),
    Broken(
        "engine of hints",
        "reflector: hints",
        "reflector: hints, engine: {}",
        "improve",
        "improve.engine: the reflector hints asks no engine",
        "write reflector: llm",
    ),
    Broken(
        "reflector's model",
        "reflector: hints",
        "reflector: llm, engine: {model: smollm2-135}",
        "improve",
        "improve.engine.model: unknown model 'smollm2-135'",
        "did you mean 'smollm2-135m'",
    ),
    Broken(
        "reflector's script",
        "reflector: hints",
        "reflector: llm, engine: {kind: scripted, script: nowhere.yaml}",
        "improve",
        "improve.engine.script: there is no file",
    ),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_every_mistake_names_its_place_and_a_way_out(case: Broken, tmp_path: Path) -> None:
    check_mistake(case, tmp_path)


def test_the_table_is_long() -> None:
    assert len(BROKEN) >= 30
