"""The batched regressions on a device, by torch.

Rows, targets, scores and residuals stay on the device, and so do the coefficients: many parents of
a structure search are one batch of a few large products. torch is imported by these functions only,
when a model is given a `device`.
"""

from colabel.learn.glm.device.devices import checked_device, torch_device
from colabel.learn.glm.device.objective import DeviceRows, TorchObjective
from colabel.learn.glm.device.solver import DeviceLBFGS

__all__ = ["DeviceLBFGS", "DeviceRows", "TorchObjective", "checked_device", "torch_device"]
