"""The same lecture: tables of trained models."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim
from omegamax.reproductions.lecture_claims import BLEU

_TRANSLATION = {
    "RNNencdec-30": (13.93, 24.19),
    "RNNsearch-30": (21.50, 31.44),
    "RNNencdec-50": (17.82, 26.71),
    "RNNsearch-50": (26.75, 34.16),
    "RNNsearch-50*": (28.45, 36.15),
    "Moses": (33.30, 35.63),
}
_RNN = {f"{name}: {column}": bleu for name, row in _TRANSLATION.items() for column, bleu in zip(("all", "no UNK"), row)}
_CAPTIONS = {
    "Human": (0.638, 0.675, 0.471, 0.91),
    "Google": (0.273, 0.317, 0.587, 0.946),
    "MSR": (0.268, 0.322, 0.567, 0.925),
    "Attention-based": (0.262, 0.272, 0.523, 0.878),
    "Captivator": (0.250, 0.301, 0.601, 0.937),
    "Berkeley LRCN": (0.246, 0.268, 0.534, 0.891),
}
# Table 1 of Xu et al. (2015): BLEU-1, -2, ... of the model without attention, and of the two with attention.
_CAPTION_COLUMNS = (*(f"Flickr8k BLEU-{order}" for order in (1, 2, 3)), *(f"COCO BLEU-{n}" for n in (1, 2, 3, 4)))
_CAPTION_BLEU = {
    f"{name}: {column}": number
    for name, row in {
        "Google NIC": (63.0, 41.0, 27.0, 66.6, 46.1, 32.9, 24.6),
        "Soft-Attention": (67.0, 44.8, 29.9, 70.7, 49.2, 34.4, 24.3),
        "Hard-Attention": (67.0, 45.7, 31.4, 71.8, 50.4, 35.7, 25.0),
    }.items()
    for column, number in zip(_CAPTION_COLUMNS, row)
}
_VIDEO_COLUMNS = ("Youtube2Text METEOR", "Youtube2Text perplexity", "DVS METEOR", "DVS perplexity")
_VIDEO = {
    "Enc-Dec": (0.2868, 33.09, 0.044, 88.28),
    "+ 3-D CNN": (0.2832, 33.42, 0.051, 84.41),
    "+ per-frame CNN": (0.2900, 27.89, 0.040, 66.63),
    "+ both": (0.2960, 27.55, 0.057, 65.44),
}
_VIDEO_NUMBERS = {
    f"{name}: {column}": number for name, row in _VIDEO.items() for column, number in zip(_VIDEO_COLUMNS, row)
}
_TRANSFORMER_BLEU = {
    "ByteNet: EN-DE": 23.75,
    "Deep-Att + PosUnk: EN-FR": 39.2,
    "GNMT + RL: EN-DE": 24.6,
    "GNMT + RL: EN-FR": 39.92,
    "ConvS2S: EN-DE": 25.16,
    "ConvS2S: EN-FR": 40.46,
    "MoE: EN-DE": 26.03,
    "MoE: EN-FR": 40.56,
    "Deep-Att + PosUnk ensemble: EN-FR": 40.4,
    "GNMT + RL ensemble: EN-DE": 26.30,
    "GNMT + RL ensemble: EN-FR": 41.16,
    "ConvS2S ensemble: EN-DE": 26.36,
    "ConvS2S ensemble: EN-FR": 41.29,
    "Transformer (base): EN-DE": 27.3,
    "Transformer (base): EN-FR": 38.1,
    "Transformer (big): EN-DE": 28.4,
    "Transformer (big): EN-FR": 41.8,
}
_FLOPS = {
    "Deep-Att + PosUnk: EN-FR": 1.0e20,
    "GNMT + RL: EN-DE": 2.3e19,
    "GNMT + RL: EN-FR": 1.4e20,
    "ConvS2S: EN-DE": 9.6e18,
    "ConvS2S: EN-FR": 1.5e20,
    "MoE: EN-DE": 2.0e19,
    "MoE: EN-FR": 1.2e20,
    "Deep-Att + PosUnk ensemble: EN-FR": 8.0e20,
    "GNMT + RL ensemble: EN-DE": 1.8e20,
    "GNMT + RL ensemble: EN-FR": 1.1e21,
    "ConvS2S ensemble: EN-DE": 7.7e19,
    "ConvS2S ensemble: EN-FR": 1.2e21,
    "Transformer (base): EN-DE": 3.3e18,
    "Transformer (big): EN-FR": 2.3e19,
}
_PERPLEXITY = {
    "base": 4.92,
    "(A) h = 1": 5.29,
    "(A) h = 4": 5.00,
    "(A) h = 16": 4.91,
    "(A) h = 32": 5.01,
    "(B) d_k = 16": 5.16,
    "(B) d_k = 32": 5.01,
    "(C) N = 2": 6.11,
    "(C) N = 4": 5.19,
    "(C) N = 8": 4.88,
    "(C) d_model = 256": 5.75,
    "(C) d_model = 1024": 4.66,
    "(C) d_ff = 1024": 5.12,
    "(C) d_ff = 4096": 4.75,
    "(D) dropout 0.0": 5.77,
    "(D) dropout 0.2": 4.95,
    "(D) smoothing 0.0": 4.67,
    "(D) smoothing 0.2": 5.47,
    "(E) learned positions": 4.92,
    "big": 4.33,
}
_HEADS = {"(A) h = 1": 24.9, "(A) h = 4": 25.5, "(A) h = 16": 25.8, "(A) h = 32": 25.4}
_SMOOTHING = {"(D) smoothing 0.0": 25.3, "(D) smoothing 0.2": 25.7}
_NO_WMT = (
    "WMT 2014 is not here, nor the machines to train on it; the recipe translates other pairs, so compare ranks only."
)


def _claim(id: str, where: str, statement: str, **rest: object) -> Claim:
    return Claim(f"lecture-{id}", "lecture", where, statement, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "rnnsearch",
        "soft attention, improvements",
        "BLEU of translation with a fixed vector and with attention, on all sentences and on those without unknown "
        "words.",
        published=_RNN,
        recipe="seq2seq",
        reason="WMT 2014 is not here; the recipe compares a fixed vector with attention on other data.",
    ),
    _claim(
        "rnnsearch-ranking",
        "soft attention, improvements",
        "Attention is much better than the plain encoder–decoder, and without unknown words comparable with the "
        "phrase-based system.",
        published=_RNN,
        run="printed_numbers:unknown_words",
        remark="Checked on the printed numbers, not on a model of ours.",
    ),
    _claim(
        "alignment-pictures",
        "soft attention, visualization",
        "Alignments learned while translating from English to French and to German.",
        recipe="seq2seq",
        reason="Pictures of models trained on WMT 2014.",
    ),
    _claim(
        "long-sequences",
        "soft content-based attention, pros and cons",
        "Attention by content chokes on sequences longer than 1000 and is not biased enough for monotonic tasks.",
        recipe="speech",
        benchmark="benchmarks/speech.py",
        reason="Shown by no number in the source; docs/speech.md has strings of digits eight times as long as those of "
        "training, written down by attention by content, by location, and by CTC.",
    ),
    _claim(
        "glimpse-pictures",
        "a recurrent model of visual attention",
        "Six glimpses learned on 60 × 60 cluttered, translated MNIST.",
        recipe="glimpse",
        benchmark="benchmarks/glimpse.py",
        reason="Pictures of a trained policy. MNIST is not here; the recipe draws them for digits of scikit-learn and "
        "for IDX files, and docs/glimpse.md has what it measured.",
    ),
    _claim(
        "glimpse-cost",
        "a recurrent model of visual attention, pros",
        "Scalability independent of the size of images.",
        run="glimpses:cost_of_an_image",
        tests=("tests/attention/test_glimpse.py::test_other_pixels_are_not_read",),
        remark="Counts pixels whose change changes the answer; benchmarks/glimpse.py has the processor time.",
    ),
    _claim(
        "captions",
        "Show, attend and tell, quantitative results",
        "Captioning: human preference (M1), Turing test (M2), BLEU and CIDEr; +2 BLEU with soft and +4 with hard "
        "attention.",
        published={
            f"{name}: {column}": number
            for name, row in _CAPTIONS.items()
            for column, number in zip(("M1", "M2", "BLEU", "CIDEr"), row)
        },
        recipe="caption",
        benchmark="benchmarks/caption.py",
        reason="COCO is not here, and M1 and M2 need people; the recipe has soft, hard and no attention on pictures of "
        "digits, so compare ranks only.",
    ),
    _claim(
        "captions-gain",
        "Show, attend and tell, quantitative results",
        "+2 BLEU with soft and +4 with hard attention.",
        published=_CAPTION_BLEU,
        run="printed_numbers:caption_gains",
        remark="Checked on table 1 of Xu et al. (2015), against the model without attention in it. The mean "
        "gains are +2.7 and +3.7; soft attention loses 0.3 in BLEU-4 on COCO. Ours, on pictures of digits "
        "(docs/caption.md): +46 with soft and +47 with hard attention, which has to begin softly; which of the two is "
        "better differs between seeds.",
    ),
    _claim(
        "video",
        "video description generation",
        "METEOR and perplexity of video descriptions.",
        published=_VIDEO_NUMBERS,
        recipe="video",
        benchmark="benchmarks/video.py",
        reason="Neither the videos nor features of them are here; the recipe has the four models on clips of moving "
        "digits, so compare ranks only.",
    ),
    _claim(
        "video-complementary",
        "video description generation",
        "Attention over frames and the 3-D convolution complement one another.",
        published=_VIDEO_NUMBERS,
        run="printed_numbers:video_descriptions",
        remark="Checked on the printed numbers: both together are the best in every column. Alone, the convolution is "
        "worse than neither on Youtube2Text, and attention has the lower METEOR on DVS. docs/video.md has ours.",
    ),
    _claim(
        "transformer-bleu",
        "Transformer, full model and performance; results",
        "BLEU on WMT 2014 English–German and English–French.",
        published=_TRANSFORMER_BLEU,
        recipe="seq2seq",
        reason=_NO_WMT,
    ),
    _claim(
        "transformer-flops",
        "Transformer, full model and performance",
        "Training costs in floating-point operations.",
        published=_FLOPS,
        reason="They are estimates from training times on other machines.",
    ),
    _claim(
        "three-times-faster",
        "results",
        "Transformer models trained more than three times faster than the others.",
        published=_FLOPS,
        run="printed_numbers:three_times_faster",
        holds=False,
        remark="By the training costs that the lecture prints: true of English–French (five times and more), but "
        "ConvS2S costs only 2.9 times the base model on English–German.",
    ),
    _claim(
        "ablation",
        "what matters",
        "Perplexity on the development set of every variation of the Transformer.",
        published=_PERPLEXITY,
        recipe="seq2seq",
        reason=_NO_WMT,
    ),
    _claim(
        "ablation-bleu",
        "what matters",
        "BLEU on the development set of every variation of the Transformer.",
        published={**BLEU, **_HEADS, **_SMOOTHING},
        recipe="seq2seq",
        reason=_NO_WMT,
    ),
    _claim(
        "head-pictures",
        "self-attention, multiple heads",
        "Where heads look while “it” is encoded in “The animal didn't cross the street because it was too tired”.",
        recipe="seq2seq",
        reason="Pictures of a model trained on WMT 2014.",
    ),
]
