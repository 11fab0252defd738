"""Several models of the same labels, joined by what each said about rows it had not seen."""

from colabel.models.stack.joint_stack import JointStack

__all__ = ["JointStack"]
