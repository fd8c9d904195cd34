"""The models that ship with the testbed, defined in plain torch modules, and the list of them.

Written here, not taken from a model library: a trace needs shapes and operations only, so a model
is built on torch's meta device (no weights, no memory) and this folder is all that the generator
depends on beside torch. Layer names follow the common model libraries where a structure has one
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tools.models.definitions.bert import Bert
from tools.models.definitions.convolutions import SIDE, VGG, AlexNet, SmallCNN
from tools.models.definitions.googlenet import GoogLeNet
from tools.models.definitions.gpt2 import GPT2
from tools.models.definitions.inception import InceptionV3
from tools.models.definitions.neumf import NeuMF
from tools.models.definitions.resnet import ResNet
from tools.models.definitions.vit import ViT


@dataclass(frozen=True)
class Model:
    """A model and the input that its operations are counted for.

    `build()` makes the module and `inputs(batch)` its arguments, both on the current default
    device. `like` names the measured model from whose times those of this model are derived; ""
    for a model that is measured itself, and for our own small one.
    """

    title: str
    architecture: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...]]
    batch: int
    sample: str
    like: str = ""


def _images(
    title: str,
    architecture: str,
    build: Callable[[], nn.Module],
    side: int = 224,
    batch: int = 64,
    like: str = "",
) -> Model:
    def inputs(batch: int) -> tuple[Tensor, ...]:
        return (torch.empty(batch, 3, side, side),)

    return Model(title, architecture, build, inputs, batch, f"image of 3x{side}x{side}", like)


def _text(
    title: str,
    architecture: str,
    build: Callable[[], nn.Module],
    inputs: int,
    batch: int,
    length: int,
    like: str = "",
) -> Model:
    def tokens(batch: int) -> tuple[Tensor, ...]:
        return tuple(torch.empty(batch, length, dtype=torch.long) for _ in range(inputs))

    return Model(title, architecture, build, tokens, batch, f"sequence of {length} tokens", like)


_RESNET = "He et al., Deep Residual Learning for Image Recognition, 2015"
_VGG = "Simonyan and Zisserman, Very Deep Convolutional Networks, 2014"
_BERT = "Devlin et al., BERT, 2018 (encoder and pooler, uncased English vocabulary)"

MODELS: dict[str, Model] = {
    "alexnet": _images("AlexNet", "Krizhevsky, One Weird Trick, 2014", AlexNet),
    "vgg11": _images("VGG-11", _VGG, lambda: VGG(11)),
    "vgg16": _images("VGG-16", _VGG, lambda: VGG(16)),
    "vgg19": _images("VGG-19", _VGG, lambda: VGG(19)),
    "resnet18": _images("ResNet-18", _RESNET, lambda: ResNet(18), batch=128, like="resnet50"),
    "resnet50": _images("ResNet-50", _RESNET, lambda: ResNet(50)),
    "resnet101": _images("ResNet-101", _RESNET, lambda: ResNet(101)),
    "resnet152": _images("ResNet-152", _RESNET, lambda: ResNet(152)),
    "googlenet": _images(
        "GoogLeNet",
        "Szegedy et al., Going Deeper with Convolutions, 2014 (batch norm, no auxiliary heads)",
        GoogLeNet,
    ),
    "inception_v3": _images(
        "Inception-v3",
        "Szegedy et al., Rethinking the Inception Architecture, 2015 (no auxiliary head)",
        InceptionV3,
        side=299,
    ),
    "vit_b_16": _images(
        "ViT-B/16",
        "Dosovitskiy et al., An Image Is Worth 16x16 Words, 2020",
        ViT,
        like="bert_large",
    ),
    "bert_base": _text(
        "BERT-base", _BERT, lambda: Bert("base"), 3, batch=16, length=384, like="bert_large"
    ),
    "bert_large": _text("BERT-large", _BERT, lambda: Bert("large"), 3, batch=16, length=384),
    "gpt2": _text(
        "GPT-2",
        "Radford et al., Language Models are Unsupervised Multitask Learners, 2019 (smallest size)",
        GPT2,
        2,
        batch=4,
        length=1024,
        like="bert_large",
    ),
    "neumf": Model(
        "NeuMF (ML-20M)",
        "He et al., Neural Collaborative Filtering, 2017, sized for MovieLens-20M",
        NeuMF,
        lambda batch: tuple(torch.empty(batch, dtype=torch.long) for _ in range(2)),
        65536,
        "pair of a user and an item",
        "resnet50",
    ),
    "smallcnn": Model(
        "SmallCNN",
        "ours: two convolutions, two linear layers",
        SmallCNN,
        lambda batch: (torch.empty(batch, 1, SIDE, SIDE),),
        32,
        f"image of 1x{SIDE}x{SIDE}",
    ),
}
