"""A constraint with `generate` of transformers: as a logits processor, and with this library's own decoding loop."""

from importlib.resources import files

from transformers import AutoModelForCausalLM, AutoTokenizer

import constrained

NAME = str(files("constrained") / "models" / "tiny" / "weights")  # or the name of any causal language model

model = AutoModelForCausalLM.from_pretrained(NAME)
tokenizer = AutoTokenizer.from_pretrained(NAME, padding_side="left")
vocabulary = constrained.Vocabulary.from_tokenizer(tokenizer, model=model)
size = constrained.regex(r"(small|medium|large)( and (red|green|blue))?")
inputs = tokenizer(["The size of the shirt:", "Another size:"], return_tensors="pt", padding=True)
width = inputs["input_ids"].shape[1]

# The processor masks scores, so beams, sampling and the other modes of `generate` work.
processor = constrained.ConstraintLogitsProcessor(size, vocabulary, max_tokens=12)
beams = model.generate(**inputs, logits_processor=[processor], max_new_tokens=12, num_beams=3)
print(tokenizer.batch_decode(beams[:, width:], skip_special_tokens=True))

# A sampler of this library: AWRS checks few tokens and returns the log weight of each completion.
exact = model.generate(
    **inputs,
    custom_generate=constrained.decode,
    constraint=size,
    vocabulary=vocabulary,
    sampler="awrs",
    seed=1,
    do_sample=True,
    top_k=0,
    max_new_tokens=12,
    return_dict_in_generate=True,
)
for out in exact.outputs:
    print(out.value, out.distribution, round(out.log_weight, 1))
