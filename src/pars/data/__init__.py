"""Where rows come from: published data sets, a user's own arrays, and which of their labels are used."""

from pars.data.arrays import arrays, to_inputs
from pars.data.check import check_labels, check_split
from pars.data.cifar import cifar10, cifar100
from pars.data.cifar_n import human_labels
from pars.data.config import NAMES, DataConfig, data_root
from pars.data.dataset import UNLABELLED, Dataset, Inputs, Labels, Split, channel_statistics
from pars.data.digits import digits
from pars.data.idx import fashion_mnist, idx_folder, read_idx
from pars.data.load import load, load_rows
from pars.data.low_resource import holdout, labelled_rows, low_resource
from pars.data.standardise import column_statistics, standardise, standardised
from pars.data.stratify import Mask

__all__ = [
    "NAMES",
    "UNLABELLED",
    "DataConfig",
    "Dataset",
    "Inputs",
    "Labels",
    "Mask",
    "Split",
    "arrays",
    "channel_statistics",
    "check_labels",
    "check_split",
    "cifar10",
    "cifar100",
    "column_statistics",
    "data_root",
    "digits",
    "fashion_mnist",
    "holdout",
    "human_labels",
    "idx_folder",
    "labelled_rows",
    "load",
    "load_rows",
    "low_resource",
    "read_idx",
    "standardise",
    "standardised",
    "to_inputs",
]
