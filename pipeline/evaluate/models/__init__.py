"""Loading of models: factories, libraries, ONNX, TorchScript and torch.export files, and state dicts."""
