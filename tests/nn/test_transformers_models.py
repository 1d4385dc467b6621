"""Hugging Face's own models, from small configurations with random weights: nothing is downloaded."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.nn import replace, restore, verify

pytestmark = pytest.mark.process  # importing a model takes seconds

SIZES = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**SIZES, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16}
T5 = {"vocab_size": 512, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}
BERT = {**SIZES, "intermediate_size": 96}
BLOCK = "model.layers.*."
AROUND = (f"{BLOCK}input_layernorm", f"{BLOCK}post_attention_layernorm")
HEADS = (f"{BLOCK}self_attn.q_norm", f"{BLOCK}self_attn.k_norm")
FEEDFORWARD = (f"{BLOCK}pre_feedforward_layernorm", f"{BLOCK}post_feedforward_layernorm")

MODELS = [
    ("LlamaForCausalLM", "LlamaConfig", DECODER, "llama", (*AROUND, "model.norm")),
    ("Qwen2ForCausalLM", "Qwen2Config", DECODER, "llama", (*AROUND, "model.norm")),
    ("Qwen3ForCausalLM", "Qwen3Config", DECODER, "llama", (*AROUND, *HEADS, "model.norm")),
    ("GemmaForCausalLM", "GemmaConfig", DECODER, "gemma", (*AROUND, "model.norm")),
    ("Gemma2ForCausalLM", "Gemma2Config", DECODER, "gemma", (*AROUND, *FEEDFORWARD, "model.norm")),
    ("Gemma3ForCausalLM", "Gemma3TextConfig", DECODER, "gemma", (*AROUND, *FEEDFORWARD, *HEADS, "model.norm")),
    ("Olmo2ForCausalLM", "Olmo2Config", DECODER, "torch", None),
    ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4}, "layernorm", None),
    ("BertForMaskedLM", "BertConfig", BERT, "layernorm", None),
    ("T5ForConditionalGeneration", "T5Config", T5, "llama", None),
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


@pytest.mark.parametrize(("model", "config", "sizes", "convention", "places"), MODELS, ids=[each[0] for each in MODELS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_says_the_same_with_our_norms(model, config, sizes, convention, places, dtype):
    made, inputs = make_model(model, config, sizes, dtype)
    keys, parameters = [*made.state_dict()], [*made.parameters()]
    report = replace(made)
    assert {each.norm.convention for each in report.replaced} == {convention}
    assert report.left == ()
    if places:
        lines = str(report).splitlines()[1:]
        assert {line.split(" x ")[1].split(":")[0] for line in lines} == set(places)
    assert [*made.state_dict()] == keys
    assert all(ours is given for ours, given in zip(made.parameters(), parameters, strict=True))
    found = verify(made, inputs)
    assert found.rows == 8 * 32
    assert restore(made) == len(report.replaced)


def test_a_replaced_t5_of_bfloat16_takes_rows_of_float32():
    """Its feed-forward output stays float32 (`wo`), and its norm returns the weight's dtype."""
    made, inputs = make_model("T5ForConditionalGeneration", "T5Config", T5, torch.bfloat16)
    for block in (*made.encoder.block, *made.decoder.block):
        block.layer[-1].DenseReluDense.wo.float()
    replace(made)
    assert made(**inputs).logits.dtype == torch.bfloat16
    verify(made, inputs)
