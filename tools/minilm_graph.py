"""Generator of findingaid/embedding/minilm*.onnx: all-MiniLM-L6-v2 as graphs without weights, in fp32 and in int8.

    python tools/minilm_graph.py            writes the files
    python tools/minilm_graph.py --check    exits 1 when a file differs from the generated graph

The weights come from the model's package; every initializer has the name of its tensor in model.safetensors. The graph
embeds one text per run, so it has no batch axis, padding or attention mask. It follows the published architecture: BERT
with 6 layers and 12 heads of 32, mean pooling, vectors of unit length. In int8, both factors of each product with a
matrix of an encoder's layer are whole numbers; such a matrix is transposed, and has a scale for each of its columns.
Large inputs are 0 there, and their products are added in floating point.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from findingaid.embedding.minilm import large_inputs

FOLDER = Path(__file__).parent.parent / "findingaid" / "embedding"
LAYERS, HEADS, HEAD, HIDDEN, INNER = 6, 12, 32, 384, 1536
VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
EPSILON = 1e-12


class Graph:
    """Builder that collects nodes and initializers, and names the values between them."""

    def __init__(self, int8: bool) -> None:
        self.int8 = int8
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.quantized: dict[str, tuple[str, str, str]] = {}
        self.parts: dict[str, tuple[str, str]] = {}

    def node(self, op: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        output = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def weight(self, name: str, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        tensor = TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="model.safetensors")
        self.initializers.append(tensor)
        return name

    def constant(self, name: str, kind: int, shape: list[int], values: Sequence[float]) -> str:
        self.initializers.append(helper.make_tensor(name, kind, shape, values))
        return name

    def linear(self, x: str, name: str, inner: int, outer: int) -> str:
        if not self.int8:
            return self.node(
                "Gemm", x, self.weight(f"{name}.weight", outer, inner), self.weight(f"{name}.bias", outer), transB=1
            )
        if places := large_inputs(name):
            others, large = self.split(x, places, inner)
            kept = self.weight(f"{name}.large", len(places), outer)
            return self.node("Gemm", large, kept, self.whole_product(others, name, inner, outer))
        return self.whole_product(x, name, inner, outer)

    def whole_product(self, x: str, name: str, inner: int, outer: int) -> str:
        whole, scale, zero = self.quantize(x)
        matrix = self.weight(f"{name}.weight", inner, outer, kind=TensorProto.INT8)
        product = self.node("Cast", self.node("MatMulInteger", whole, matrix, zero), to=TensorProto.FLOAT)
        scales = self.node("Mul", scale, self.weight(f"{name}.scale", outer))
        return self.node("Add", self.node("Mul", product, scales), self.weight(f"{name}.bias", outer))

    def split(self, x: str, places: list[int], width: int) -> tuple[str, str]:
        """Return x with zeros at these places, and x at these places; the same for each product with x."""
        if x not in self.parts:
            mask = [float(place not in places) for place in range(width)]
            others = self.node("Mul", x, self.constant(f"{x}_others", TensorProto.FLOAT, [width], mask))
            places_of = self.constant(f"{x}_large", TensorProto.INT64, [len(places)], places)
            self.parts[x] = others, self.node("Gather", x, places_of, axis=1)
        return self.parts[x]

    def quantize(self, x: str) -> tuple[str, str, str]:
        """Return x as whole numbers, with their scale and zero point; the same for each product with x."""
        if x not in self.quantized:
            self.quantized[x] = (f"{x}_whole", f"{x}_scale", f"{x}_zero")
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], self.quantized[x]))
        return self.quantized[x]

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight", HIDDEN), self.weight(f"{name}.bias", HIDDEN)
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)


def build(*, int8: bool) -> onnx.ModelProto:
    """Build the ONNX model."""
    g = Graph(int8)
    zero = g.constant("zero", TensorProto.INT64, [1], [0])
    heads = g.constant("heads", TensorProto.INT64, [3], [-1, HEADS, HEAD])
    flat = g.constant("flat", TensorProto.INT64, [2], [-1, HIDDEN])
    scale = g.constant("scale", TensorProto.FLOAT, [], [HEAD**-0.5])

    words = g.node("Gather", g.weight("embeddings.word_embeddings.weight", VOCABULARY, HIDDEN), "input_ids")
    length = g.node("Shape", "input_ids")
    places = g.node("Slice", g.weight("embeddings.position_embeddings.weight", POSITIONS, HIDDEN), zero, length, zero)
    types = g.node("Gather", g.weight("embeddings.token_type_embeddings.weight", TYPES, HIDDEN), zero)
    x = g.norm(g.node("Add", g.node("Add", words, types), places), "embeddings.LayerNorm")

    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        query, key, value = (
            g.node(
                "Transpose",
                g.node("Reshape", g.linear(x, f"{layer}.attention.self.{part}", HIDDEN, HIDDEN), heads),
                perm=perm,
            )
            for part, perm in (("query", [1, 0, 2]), ("key", [1, 2, 0]), ("value", [1, 0, 2]))
        )
        weights = g.node("Softmax", g.node("Mul", g.node("MatMul", query, key), scale), axis=-1)
        mixed = g.node("Reshape", g.node("Transpose", g.node("MatMul", weights, value), perm=[1, 0, 2]), flat)
        attended = g.linear(mixed, f"{layer}.attention.output.dense", HIDDEN, HIDDEN)
        x = g.norm(g.node("Add", attended, x), f"{layer}.attention.output.LayerNorm")
        inner = g.node("Gelu", g.linear(x, f"{layer}.intermediate.dense", HIDDEN, INNER))
        outer = g.linear(inner, f"{layer}.output.dense", INNER, HIDDEN)
        x = g.norm(g.node("Add", outer, x), f"{layer}.output.LayerNorm")

    mean = g.node("ReduceMean", x, zero, keepdims=0)
    g.node("Div", mean, g.node("ReduceL2", mean, zero, keepdims=1), output="embedding")

    graph = helper.make_graph(
        g.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["length"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [HIDDEN])],
        g.initializers,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10, producer_name="findingaid"
    )


if __name__ == "__main__":
    for path, int8 in ((FOLDER / "minilm.onnx", False), (FOLDER / "minilm-int8.onnx", True)):
        made = build(int8=int8).SerializeToString(deterministic=True)
        if "--check" not in sys.argv:
            path.write_bytes(made)
            print(f"{path.name}: {len(made):,} bytes")
        elif not path.is_file() or path.read_bytes() != made:
            sys.exit(f"{path} is not what this script writes: run it")
