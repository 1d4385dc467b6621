"""Hugging Face's own models, from small configurations with random weights: nothing is downloaded."""

import pytest
import torch

from fib_rmsnorm.nn import replace, restore, verify

pytestmark = pytest.mark.process  # importing a model takes seconds

SIZES = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**SIZES, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16}
T5 = {"vocab_size": 512, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}
BERT = {**SIZES, "intermediate_size": 96}

MODELS = [
    ("LlamaForCausalLM", "LlamaConfig", DECODER, "llama"),
    ("Qwen2ForCausalLM", "Qwen2Config", DECODER, "llama"),
    ("Qwen3ForCausalLM", "Qwen3Config", DECODER, "llama"),
    ("GemmaForCausalLM", "GemmaConfig", DECODER, "gemma"),
    ("Gemma2ForCausalLM", "Gemma2Config", DECODER, "gemma"),
    ("Gemma3ForCausalLM", "Gemma3TextConfig", DECODER, "gemma"),
    ("Olmo2ForCausalLM", "Olmo2Config", DECODER, "torch"),
    ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4}, "layernorm"),
    ("BertForMaskedLM", "BertConfig", BERT, "layernorm"),
    ("T5ForConditionalGeneration", "T5Config", T5, "llama"),
]


def make_model(model, config, sizes, dtype):
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install -e '.[models]'")
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**sizes)).to(dtype)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    ids = torch.randint(0, 512, (8, 32))
    return made, {"input_ids": ids, **({"decoder_input_ids": ids} if model.startswith("T5") else {})}


@pytest.mark.parametrize(("model", "config", "sizes", "convention"), MODELS, ids=[each[0] for each in MODELS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_says_the_same_with_our_norms(model, config, sizes, convention, dtype):
    made, inputs = make_model(model, config, sizes, dtype)
    keys, parameters = [*made.state_dict()], [*made.parameters()]
    norms = sum("norm" in type(each).__name__.lower() for each in made.modules())
    report = replace(made)
    assert len(report.replaced) == norms
    assert {each.norm.convention for each in report.replaced} == {convention}
    assert report.left == ()
    assert [*made.state_dict()] == keys
    assert all(ours is given for ours, given in zip(made.parameters(), parameters, strict=True))
    found = verify(made, inputs)
    assert found.rows == 8 * 32
    assert restore(made) == len(report.replaced)
