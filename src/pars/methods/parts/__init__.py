"""Building blocks that several methods share, each tested by itself.

| file | holds |
|---|---|
| `targets.py` | one-hot and sharpened targets, entropy, KL divergence, complementary labels |
| `label_guessing.py` | co-refinement and co-guessing of labels by two networks |
| `mixing.py` | mixup and MixMatch |
| `small_loss.py` | small-loss selection: the noise rate, given or estimated, and the forget-rate schedule |
| `loss_mixture.py` | two-component mixtures of per-row losses: Gaussian and Beta |
| `transition.py` | the matrix of label errors: estimated from anchors, and what it implies |
| `class_balance.py` | class-balanced oversampling, selection and nearest-neighbor votes |
| `ramps.py` | how the weight of a loss grows |
| `prediction_history.py` | per-row predictions of earlier epochs: the last ten, or a moving average |
| `selected_labels.py` | given labels that the network predicts with confidence, and NLNL's semi-supervised finish |
| `gradient_norm_sampling.py` | rows drawn in proportion to the gradient norm of their loss |
| `pseudo_label_trust.py` | the weight of pseudo-labels, estimated from noisy labels |
"""
