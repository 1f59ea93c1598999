# SPDX-License-Identifier: Apache-2.0
"""The KServe v2 protocol: requests and answers of `infer` as bytes, without HTTP and without a device. What a client sends is
checked here; whatever is wrong with it is a Refused, with the status for the client."""
import dataclasses
import json
import math

# name: bytes of an element; whether it is a whole number
DATATYPES = {"BOOL": (1, True), "UINT8": (1, True), "INT8": (1, True), "INT32": (4, True), "INT64": (8, True), "FP16": (2, False),
             "FP32": (4, False)}
BATCH_MAX = 64
TENSORS_MAX = 16
TIMEOUT_MAX = 3600 * 10**6  # us


class Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Spec:
    """A tensor of a model's. The first dimension is the batch. below: its elements are from 0 to that, exclusive; an index
    that is out of range would end the whole process's use of the device."""

    name: str
    datatype: str
    shape: tuple
    below: int = 0

    def metadata(self):
        return {"name": self.name, "datatype": self.datatype, "shape": [-1, *self.shape]}


@dataclasses.dataclass
class Input:
    spec: Spec
    shape: tuple
    data: object  # bytes, or a flat list


@dataclasses.dataclass
class Infer:
    id: str
    inputs: list
    outputs: dict  # name: whether its data is to be binary
    priority: int = 0
    timeout_us: int = 0

    @property
    def batch(self):
        return self.inputs[0].shape[0]


def parse_json(data, what="the body"):
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise Refused(400, f"{what} is not JSON: {str(e)[:100]}") from None
    if not isinstance(value, dict):
        raise Refused(400, f"{what} is not a JSON object")
    return value


def _get(of, key, kind, default=None):
    value = of.get(key)
    value = default if value is None else value
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise Refused(400, f"'{key}' is not {'an object' if kind is dict else 'an array' if kind is list else 'a ' + kind.__name__}")
    return value


def _whole(of, key, most, default=0):
    value = _get(of, key, int, default)
    if not 0 <= value <= most:
        raise Refused(400, f"'{key}' is from 0 to {most}, not {str(value)[:20]}")
    return value


def _flat(data, n):
    """Nested arrays as one list of n numbers."""
    out, stack = [], [iter([data])]
    while stack:
        for item in stack[-1]:
            if isinstance(item, list):
                if len(stack) > 16:
                    raise Refused(400, "'data' is nested too deeply")
                stack.append(iter(item))
                break
            out.append(item)
            if len(out) > n:
                raise Refused(400, f"'data' has more than {n} elements")
        else:
            stack.pop()
    if len(out) != n:
        raise Refused(400, f"'data' has {len(out)} elements, not {n}")
    return out


def _check_elements(spec, data):
    size, whole = DATATYPES[spec.datatype]
    if spec.datatype == "BOOL":
        if not all(isinstance(x, bool) for x in data):
            raise Refused(400, f"an element of '{spec.name}' is neither true nor false")
        return
    if not all(type(x) is int or (not whole and type(x) is float) for x in data):
        raise Refused(400, f"an element of '{spec.name}' is not of {spec.datatype}")
    if whole:
        low, high = (0, 256) if spec.datatype == "UINT8" else (-(1 << 8 * size - 1), 1 << 8 * size - 1)
        if data and not low <= min(data) <= max(data) < high:
            raise Refused(400, f"an element of '{spec.name}' does not fit {spec.datatype}")
    elif any(abs(x) > 3.5e38 for x in data if type(x) is int or math.isfinite(x)):
        raise Refused(400, f"an element of '{spec.name}' does not fit {spec.datatype}")


def _shape(spec, given):
    shape = _get(given, "shape", list)
    if shape is None or any(type(n) is not int for n in shape) or tuple(shape[1:]) != spec.shape or not 1 <= shape[0] <= BATCH_MAX:
        raise Refused(400, f"the shape of '{spec.name}' is [1 to {BATCH_MAX}, {', '.join(map(str, spec.shape))}], "
                           f"not {json.dumps(shape)[:100]}")
    return tuple(shape)


def _input(specs, given, binary):
    if not isinstance(given, dict):
        raise Refused(400, "an element of 'inputs' is not an object")
    name = _get(given, "name", str, "")
    spec = specs.get(name)
    if not spec:
        raise Refused(400, f"there is no input '{name[:64]}'; it is {', '.join(specs)}")
    datatype = _get(given, "datatype", str, "")
    if datatype != spec.datatype:
        raise Refused(400, f"the datatype of '{name}' is {spec.datatype}, not '{datatype[:16]}'")
    shape = _shape(spec, given)
    elements, parameters = math.prod(shape), _get(given, "parameters", dict, {})
    if "binary_data_size" in parameters:
        n, wanted = _get(parameters, "binary_data_size", int), elements * DATATYPES[datatype][0]
        if "data" in given or n != wanted:
            raise Refused(400, f"'{name}' has {wanted} bytes of binary data, and no other")
        return Input(spec, shape, binary.take(n))
    data = _flat(_get(given, "data", list, []), elements)
    _check_elements(spec, data)
    return Input(spec, shape, data)


class _Binary:
    """What follows the JSON."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise Refused(400, f"the body ends {self.at + n - len(self.data)} bytes before its binary data does")
        self.at += n
        return self.data[self.at - n:self.at]


def _outputs(specs, body):
    all_binary = _get(_get(body, "parameters", dict, {}), "binary_data_output", bool, False)
    wanted = _get(body, "outputs", list)
    if not wanted:
        return {name: all_binary for name in specs}
    out = {}
    for given in wanted[:TENSORS_MAX]:
        name = _get(given, "name", str, "") if isinstance(given, dict) else ""
        if name not in specs:
            raise Refused(400, f"there is no output '{name[:64]}'; it is {', '.join(specs)}")
        out[name] = _get(_get(given, "parameters", dict, {}), "binary_data", bool, all_binary)
    return out


def parse_infer(data, header_length, inputs, outputs):
    """data: the body; header_length: of its JSON, or None: all of it. inputs, outputs: the model's, Spec by name."""
    if header_length is None:
        header_length = len(data)
    if not 0 <= header_length <= len(data):
        raise Refused(400, f"Inference-Header-Content-Length is {header_length}, and the body has {len(data)} bytes")
    body, binary = parse_json(bytes(data[:header_length])), _Binary(data[header_length:])
    given = _get(body, "inputs", list, [])
    if len(given) > TENSORS_MAX:
        raise Refused(400, "there are too many inputs")
    parsed = [_input(inputs, one, binary) for one in given]
    if sorted(i.spec.name for i in parsed) != sorted(inputs):
        raise Refused(400, f"the inputs are {', '.join(inputs)}, each once")
    if len({i.shape[0] for i in parsed}) != 1:
        raise Refused(400, "the inputs are of different batches")
    if binary.at != len(binary.data):
        raise Refused(400, f"{len(binary.data) - binary.at} bytes follow the binary data of the inputs")
    parameters = _get(body, "parameters", dict, {})
    return Infer(_get(body, "id", str, "")[:256], parsed, _outputs(outputs, body), _whole(parameters, "priority", 255),
                 _whole(parameters, "timeout", TIMEOUT_MAX))


def write_infer(model, asked, results):
    """results: of each output that was asked for, its Spec, shape and a function each that gives its bytes and its list. Returns
    the length of the JSON, or None where that is all, and the body."""
    outputs, binary = [], []
    for spec, shape, as_bytes, as_list in results:
        one = {"name": spec.name, "datatype": spec.datatype, "shape": list(shape)}
        if asked.outputs[spec.name]:
            binary.append(as_bytes())
            one["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            one["data"] = [x if math.isfinite(x) else None for x in as_list()]
        outputs.append(one)
    answer = {"model_name": model, "model_version": "1", "outputs": outputs}
    if asked.id:
        answer["id"] = asked.id
    text = json.dumps(answer).encode()
    return (len(text) if binary else None), b"".join([text, *binary])
