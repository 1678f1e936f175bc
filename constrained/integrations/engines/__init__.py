"""What the plug-ins for engines that serve models share: vLLM, SGLang. Imports none of them.

settings.py            limits that the operator can set
compatibility.py       checks that an engine has the API that a plug-in uses
request_constraint.py  the constraint of a request
trial.py               compiles a constraint in a sandbox first
automata.py            compiled automata, shared by all requests
request_grammar.py     the tokens of one request: accept, validate, roll back, mask
step_masks.py          the masks of a step
"""
