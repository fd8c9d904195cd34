"""VGG without batch normalisation (Simonyan and Zisserman, 2014): configurations A, D and E."""

from __future__ import annotations

from torch import Tensor, nn

CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
CHANNELS = (64, 128, 256, 512, 512)


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
