"""Evaluate a network, its BN statistics, and Tent on a stream, and plot the error over time."""

import argparse
import copy
import importlib
import sys

import torch

import robustshards as rs


class Fixed(torch.nn.Module):
    """A network that does not adapt."""

    def __init__(self, network):
        super().__init__()
        self.network = network.eval().requires_grad_(False)

    def forward(self, images):
        """Return logits."""
        return self.network(images)

    def reset(self):
        """Do nothing: no batch changes the next one."""


class BatchStatistics(Fixed):
    """A network whose batch normalisation uses the statistics of each batch."""

    def __init__(self, network):
        super().__init__(network)
        self.norms = [each for each in network.modules() if isinstance(each, torch.nn.BatchNorm2d)]
        for norm in self.norms:
            norm.train()
            norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None


class Tent(BatchStatistics):
    """Tent: after each batch, lower the entropy of its predictions by scale and shift of batch normalisation."""

    def __init__(self, network, rate=0.00025):
        super().__init__(network)
        weights = [weight.requires_grad_() for norm in self.norms for weight in (norm.weight, norm.bias)]
        self.optimizer = torch.optim.SGD(weights, lr=rate, momentum=0.9)
        self.saved = copy.deepcopy((self.network.state_dict(), self.optimizer.state_dict()))

    def forward(self, images):
        """Return logits, then adapt."""
        logits = self.network(images)
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
        self.optimizer.zero_grad()
        entropy.backward()
        self.optimizer.step()
        return logits

    def reset(self):
        """Set the weights and the optimizer back."""
        network, optimizer = copy.deepcopy(self.saved)
        self.network.load_state_dict(network)
        self.optimizer.load_state_dict(optimizer)


METHODS = {"none": Fixed, "BN": BatchStatistics, "Tent": Tent}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="imagenet-c", help="data set")
    parser.add_argument("--model", default="torchvision.models:resnet50", help="package.module:function")
    parser.add_argument("--weights", help="argument of the function, for example DEFAULT")
    parser.add_argument("--protocol", default="continual", help="protocol; robustshards streams lists them")
    parser.add_argument("--batch-size", type=int, default=64, help="images in a batch")
    parser.add_argument("--out", default="tent", help="folder of the report")
    options = parser.parse_args()

    sys.path.insert(0, "")  # for modules in the current folder
    module, _, function = options.model.partition(":")
    make = getattr(importlib.import_module(module), function)
    network = make(weights=options.weights) if options.weights else make()
    evaluations = {
        name: rs.evaluate(
            method(copy.deepcopy(network)),
            options.data,
            name=name,
            protocol=options.protocol,
            batch_size=options.batch_size,
        )
        for name, method in METHODS.items()
    }
    for name, evaluation in evaluations.items():
        labels = evaluation.predictions["label"].to_pylist()
        wrong = [top1 != label for top1, label in zip(evaluation.predictions["top1"].to_pylist(), labels, strict=True)]
        print(f"{name}: error {sum(wrong) / len(wrong):.1%}")
    rs.report(list(evaluations.values()), out=options.out)
    print(f"{options.out}/report.html shows the error over time")
