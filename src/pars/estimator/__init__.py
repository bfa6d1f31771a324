"""scikit-learn classifiers for labels that may be wrong.

>>> import numpy as np
>>> from pars import PARSClassifier
>>> rng = np.random.default_rng(0)
>>> X = np.concatenate([rng.normal(-2, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
>>> y = np.repeat(["left", "right"], 60)
>>> y[:15] = "right"                                    # a quarter of one class has a wrong label
>>> model = PARSClassifier(random_state=0).fit(X, y)
>>> model.predict([[-2, -2, -2], [2, 2, 2]])
array(['left', 'right'], dtype='<U5')

Texts are read as they are:

>>> texts = ["my card is lost", "card payment failed", "the parcel is late", "no parcel came"] * 10
>>> topics = ["card", "card", "post", "post"] * 10
>>> PARSClassifier(encoder="tfidf", random_state=0).fit(texts, topics).predict(["a new card", "where is the parcel"])
array(['card', 'post'], dtype='<U4')
"""

from pars.errors import EncoderChosenWarning, SimplerModelWarning
from pars.estimator.classifier import EarlierCheckpointWarning, PARSClassifier, RobustClassifier

__all__ = [
    "EarlierCheckpointWarning",
    "EncoderChosenWarning",
    "PARSClassifier",
    "RobustClassifier",
    "SimplerModelWarning",
]
