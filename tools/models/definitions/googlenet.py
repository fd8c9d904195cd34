"""GoogLeNet (Szegedy et al., 2014) with batch normalisation and without its auxiliary heads.

The third branch of an inception block has a 3x3 convolution where the paper has 5x5. That is how
the widely used pretrained model is built, and what gives its parameter count.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConvBN(nn.Module):
    """A convolution without bias, batch normalisation, ReLU."""

    def __init__(self, before: int, after: int, kernel: int | tuple[int, int], **options) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, bias=False, **options)
        self.bn = nn.BatchNorm2d(after, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.bn(self.conv(x)))


class Inception(nn.Module):
    """Four parallel branches whose channels are concatenated."""

    def __init__(self, before: int, one: int, three: tuple, five: tuple, pool: int) -> None:
        super().__init__()
        self.branch1 = ConvBN(before, one, 1)
        self.branch2 = nn.Sequential(
            ConvBN(before, three[0], 1), ConvBN(three[0], three[1], 3, padding=1)
        )
        self.branch3 = nn.Sequential(
            ConvBN(before, five[0], 1), ConvBN(five[0], five[1], 3, padding=1)
        )
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), ConvBN(before, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GoogLeNet(nn.Module):
    """A stem, nine inception blocks in three stages, one linear layer."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = ConvBN(3, 64, 7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = ConvBN(64, 64, 1)
        self.conv3 = ConvBN(64, 192, 3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception3a = Inception(192, 64, (96, 128), (16, 32), 32)
        self.inception3b = Inception(256, 128, (128, 192), (32, 96), 64)
        self.maxpool3 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception4a = Inception(480, 192, (96, 208), (16, 48), 64)
        self.inception4b = Inception(512, 160, (112, 224), (24, 64), 64)
        self.inception4c = Inception(512, 128, (128, 256), (24, 64), 64)
        self.inception4d = Inception(512, 112, (144, 288), (32, 64), 64)
        self.inception4e = Inception(528, 256, (160, 320), (32, 128), 128)
        self.maxpool4 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.inception5a = Inception(832, 256, (160, 320), (32, 128), 128)
        self.inception5b = Inception(832, 384, (192, 384), (48, 128), 128)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(1024, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool1(self.conv1(images))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        x = self.inception4c(self.inception4b(self.inception4a(x)))
        x = self.maxpool4(self.inception4e(self.inception4d(x)))
        x = self.inception5b(self.inception5a(x))
        return self.fc(self.avgpool(x).flatten(1))
