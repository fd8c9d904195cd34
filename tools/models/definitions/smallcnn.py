"""A small convolutional network that the generator trains, so that its gradients are real."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

SIDE, CLASSES = 16, 10


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
