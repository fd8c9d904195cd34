"""Inception-v3 (Szegedy et al., 2015) for 299x299 images, without its auxiliary head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d

from tools.models.definitions.googlenet import ConvBN


class BlockA(nn.Module):
    """Grid of 35x35: 1x1, 5x5, double 3x3 and pooling branches."""

    def __init__(self, before: int, pool: int) -> None:
        super().__init__()
        self.branch1x1 = ConvBN(before, 64, 1)
        self.branch5x5_1 = ConvBN(before, 48, 1)
        self.branch5x5_2 = ConvBN(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = ConvBN(before, 64, 1)
        self.branch3x3dbl_2 = ConvBN(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = ConvBN(96, 96, 3, padding=1)
        self.branch_pool = ConvBN(before, pool, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.branch1x1(x)
        five = self.branch5x5_2(self.branch5x5_1(x))
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pool = self.branch_pool(avg_pool2d(x, 3, 1, 1))
        return torch.cat([one, five, three, pool], 1)


class BlockB(nn.Module):
    """Block from 35x35 to 17x17."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self.branch3x3 = ConvBN(before, 384, 3, stride=2)
        self.branch3x3dbl_1 = ConvBN(before, 64, 1)
        self.branch3x3dbl_2 = ConvBN(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = ConvBN(96, 96, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3(x)
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([three, double, max_pool2d(x, 3, 2)], 1)


class BlockC(nn.Module):
    """Grid of 17x17: 7x7 convolutions written as 1x7 and 7x1."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        row = {"kernel": (1, 7), "padding": (0, 3)}
        column = {"kernel": (7, 1), "padding": (3, 0)}
        self.branch1x1 = ConvBN(before, 192, 1)
        self.branch7x7_1 = ConvBN(before, width, 1)
        self.branch7x7_2 = ConvBN(width, width, **row)
        self.branch7x7_3 = ConvBN(width, 192, **column)
        self.branch7x7dbl_1 = ConvBN(before, width, 1)
        self.branch7x7dbl_2 = ConvBN(width, width, **column)
        self.branch7x7dbl_3 = ConvBN(width, width, **row)
        self.branch7x7dbl_4 = ConvBN(width, width, **column)
        self.branch7x7dbl_5 = ConvBN(width, 192, **row)
        self.branch_pool = ConvBN(before, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.branch1x1(x)
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        pool = self.branch_pool(avg_pool2d(x, 3, 1, 1))
        return torch.cat([one, seven, double, pool], 1)


class BlockD(nn.Module):
    """Block from 17x17 to 8x8."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self.branch3x3_1 = ConvBN(before, 192, 1)
        self.branch3x3_2 = ConvBN(192, 320, 3, stride=2)
        self.branch7x7x3_1 = ConvBN(before, 192, 1)
        self.branch7x7x3_2 = ConvBN(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = ConvBN(192, 192, (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = ConvBN(192, 192, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        return torch.cat([three, self.branch7x7x3_4(seven), max_pool2d(x, 3, 2)], 1)


class BlockE(nn.Module):
    """Grid of 8x8: branches that split into 1x3 and 3x1."""

    def __init__(self, before: int) -> None:
        super().__init__()
        row = {"kernel": (1, 3), "padding": (0, 1)}
        column = {"kernel": (3, 1), "padding": (1, 0)}
        self.branch1x1 = ConvBN(before, 320, 1)
        self.branch3x3_1 = ConvBN(before, 384, 1)
        self.branch3x3_2a = ConvBN(384, 384, **row)
        self.branch3x3_2b = ConvBN(384, 384, **column)
        self.branch3x3dbl_1 = ConvBN(before, 448, 1)
        self.branch3x3dbl_2 = ConvBN(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = ConvBN(384, 384, **row)
        self.branch3x3dbl_3b = ConvBN(384, 384, **column)
        self.branch_pool = ConvBN(before, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.branch1x1(x)
        three = self.branch3x3_1(x)
        three = [self.branch3x3_2a(three), self.branch3x3_2b(three)]
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        double = [self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)]
        pool = self.branch_pool(avg_pool2d(x, 3, 1, 1))
        return torch.cat([one, *three, *double, pool], 1)


class InceptionV3(nn.Module):
    """A stem of five convolutions, eleven inception blocks, one linear layer."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = ConvBN(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3 = ConvBN(32, 32, 3)
        self.Conv2d_2b_3x3 = ConvBN(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1 = ConvBN(64, 80, 1)
        self.Conv2d_4a_3x3 = ConvBN(80, 192, 3)
        self.Mixed_5b = BlockA(192, 32)
        self.Mixed_5c = BlockA(256, 64)
        self.Mixed_5d = BlockA(288, 64)
        self.Mixed_6a = BlockB(288)
        self.Mixed_6b = BlockC(768, 128)
        self.Mixed_6c = BlockC(768, 160)
        self.Mixed_6d = BlockC(768, 160)
        self.Mixed_6e = BlockC(768, 192)
        self.Mixed_7a = BlockD(768)
        self.Mixed_7b = BlockE(1280)
        self.Mixed_7c = BlockE(2048)
        self.fc = nn.Linear(2048, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(images))
        x = max_pool2d(self.Conv2d_2b_3x3(x), 3, 2)
        x = max_pool2d(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)), 3, 2)
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x)))
        x = self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))
        x = self.Mixed_6e(self.Mixed_6d(x))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        return self.fc(x.mean((2, 3)))
