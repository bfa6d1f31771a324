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
"""

from pars.estimator.classifier import KeptEarlierWarning, PARSClassifier, RobustClassifier

__all__ = ["KeptEarlierWarning", "PARSClassifier", "RobustClassifier"]
