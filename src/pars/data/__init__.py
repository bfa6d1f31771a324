"""Where rows come from: published data sets, a user's own arrays, and which of their labels are used."""

from pars.data.arrays import arrays, checked_dataset, to_inputs, to_tokens
from pars.data.checked_labels import CheckedLabels, checked_labels_csv, read_checked_labels, with_checked_labels
from pars.data.cifar import cifar10, cifar100
from pars.data.cifar_n import human_labels
from pars.data.class_labels import check_class_names, label_column
from pars.data.clothing1m import MEAN, STD, clothing1m, is_clothing1m
from pars.data.clothing1m import images_to_pack as clothing1m_images
from pars.data.column_encoder import ColumnEncoder
from pars.data.columns import Columns, column_texts, frame_columns, is_frame, is_free_text
from pars.data.config import NAMES, DataConfig, data_root
from pars.data.corrected_table import write_corrected_table
from pars.data.dataset import (
    CHECKED,
    DROPPED,
    TRUSTED,
    UNCHECKED,
    UNLABELED,
    Dataset,
    Inputs,
    Labels,
    Split,
    channel_statistics,
    check_labels,
    check_split,
    column_statistics,
    standardize,
    standardized,
)
from pars.data.digits import digits
from pars.data.disk_images import DiskImages
from pars.data.entries import entries, entry_table, kind_of_entries, table_of
from pars.data.idx import fashion_mnist, idx_folder, is_idx_folder, read_idx
from pars.data.image_files import split_of
from pars.data.images import IMAGE_SUFFIXES, UnreadableImage, all_unreadable, image_file_shape, read_image
from pars.data.load import Tokenize, load, load_rows
from pars.data.preview import ImagePreview, Preview, Previews, RecordPreview, TextPreview
from pars.data.subsets import Mask, holdout, labeled_rows, low_resource
from pars.data.table import TABLES, Table, has_columns, read_columns, read_table
from pars.missing import is_missing

CLOTHING1M_STATISTICS = (MEAN, STD)

__all__ = [
    "CHECKED",
    "CLOTHING1M_STATISTICS",
    "DROPPED",
    "IMAGE_SUFFIXES",
    "NAMES",
    "TABLES",
    "TRUSTED",
    "UNCHECKED",
    "UNLABELED",
    "CheckedLabels",
    "ColumnEncoder",
    "Columns",
    "DataConfig",
    "Dataset",
    "DiskImages",
    "ImagePreview",
    "Inputs",
    "Labels",
    "Mask",
    "Preview",
    "Previews",
    "RecordPreview",
    "Split",
    "Table",
    "TextPreview",
    "Tokenize",
    "UnreadableImage",
    "all_unreadable",
    "arrays",
    "channel_statistics",
    "check_class_names",
    "check_labels",
    "check_split",
    "checked_dataset",
    "checked_labels_csv",
    "cifar10",
    "cifar100",
    "clothing1m",
    "clothing1m_images",
    "column_statistics",
    "column_texts",
    "data_root",
    "digits",
    "entries",
    "entry_table",
    "fashion_mnist",
    "frame_columns",
    "has_columns",
    "holdout",
    "human_labels",
    "idx_folder",
    "image_file_shape",
    "is_clothing1m",
    "is_frame",
    "is_free_text",
    "is_idx_folder",
    "is_missing",
    "kind_of_entries",
    "label_column",
    "labeled_rows",
    "load",
    "load_rows",
    "low_resource",
    "read_checked_labels",
    "read_columns",
    "read_idx",
    "read_image",
    "read_table",
    "split_of",
    "standardize",
    "standardized",
    "table_of",
    "to_inputs",
    "to_tokens",
    "with_checked_labels",
    "write_corrected_table",
]
