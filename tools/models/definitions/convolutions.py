"""Chains of convolutions that end in linear layers: AlexNet, VGG and our own small network.

AlexNet is the one-GPU form (Krizhevsky, "One weird trick", 2014), VGG without batch normalisation
(Simonyan and Zisserman, 2014), configurations A, D and E, both for 224x224 images. The generator
trains the small network, so that its gradients are real.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # of VGG
CHANNELS = (64, 128, 256, 512, 512)
SIDE, CLASSES = 16, 10  # of the small network


class AlexNet(nn.Module):
    """Five convolutions and three fully connected layers, which hold 96 % of the parameters."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


class VGG(nn.Module):
    """Five stages of 3x3 convolutions, each closed by pooling, and three big linear layers."""

    def __init__(self, depth: int, classes: int = 1000) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        before = 3
        for channels, repeat in zip(CHANNELS, CONVOLUTIONS[depth], strict=True):
            for _ in range(repeat):
                steps += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
                before = channels
            steps.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*steps)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


class SmallCNN(nn.Module):
    """Two convolutions and two linear layers for grey images of 16x16: 18,346 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = max_pool2d(relu(self.conv1(images)), 2)
        x = max_pool2d(relu(self.conv2(x)), 2)
        return self.fc2(relu(self.fc1(x.flatten(1))))
