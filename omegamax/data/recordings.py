"""Recordings of single words: WAV files, the Free Spoken Digit Dataset, and words that are synthesised.

A recording's name is `LABEL_SPEAKER_INDEX.wav`, as in the Free Spoken Digit Dataset (Jackson et al., 2018), whose rule
for its test data is used: those with an index below 5. They are in a directory, in its folder `recordings`, or in one
archive, `recordings.tar.xz` (also .tar.gz or .tar).
"""

from __future__ import annotations

import io
import re
import tarfile
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

RATE = 8000  # samples per second of everything below
MAX_SECONDS = 600  # of one file
_NAME = re.compile(r"([^_/]+)_([^_/]+)_(\d{1,6})\.wav")
_ARCHIVES = ("recordings.tar.xz", "recordings.tar.gz", "recordings.tar")
_MAX_BYTES = 1 << 31
N_TEST = 5  # the indices below it are for tests


class Recording(NamedTuple):
    """One word that somebody said."""

    label: str
    speaker: str
    number: int
    samples: np.ndarray  # float32, from −1 to 1, at RATE


def read_wav(file: Path | IO[bytes], name: str = "") -> np.ndarray:
    """Reads an uncompressed WAV file of 8, 16, 24 or 32 bits as float32 at 8 kHz; channels are averaged.

    Arguments:
        file: a path, or an open file
        name: of an open file, for errors
    """
    said = name or str(file)
    try:
        with wave.open(str(file) if isinstance(file, Path) else file, "rb") as source:
            rate, width, channels = source.getframerate(), source.getsampwidth(), source.getnchannels()
            if source.getnframes() > MAX_SECONDS * rate:
                raise ValueError(f"{said}: expected at most {MAX_SECONDS} seconds of sound, got more; divide it")
            raw = source.readframes(source.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(
            f"{said}: expected an uncompressed WAV file, got {error or 'too few bytes'}; convert it"
        ) from None
    samples = _decode(raw, width).reshape(-1, channels).mean(1)
    if not len(samples):
        raise ValueError(f"{said}: expected some sound, got none; leave the file out")
    return _resample(samples, rate).astype(np.float32)


def _decode(raw: bytes, width: int) -> np.ndarray:
    if width == 1:  # the only unsigned one
        return np.frombuffer(raw, np.uint8).astype(np.float64) / 128 - 1
    if width == 3:  # to 32 bits: the least byte is zero
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        raw, width = wide.tobytes(), 4
    return np.frombuffer(raw, f"<i{width}").astype(np.float64) / 2 ** (8 * width - 1)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    """Brings samples to 8 kHz: what is above 4 kHz is averaged away, then lines are drawn between samples."""
    if rate == RATE:
        return samples
    width = max(1, round(rate / RATE))
    smooth = np.convolve(samples, np.full(width, 1 / width), mode="same")
    times = np.arange(max(1, int(len(samples) * RATE / rate))) * (rate / RATE)
    return np.interp(times, np.arange(len(samples)), smooth)


def read_recordings(path: str | Path) -> list[Recording]:
    """Reads all recordings of a directory, in the order of their names.

    Arguments:
        path: a directory with WAV files or an archive of them
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such directory; give one with files such as 7_ada_12.wav")
    archive = next((path / name for name in _ARCHIVES if (path / name).is_file()), None)
    found = list(_archived(archive) if archive else _files(path))
    if not found:
        raise ValueError(f"{path}: expected WAV files named LABEL_SPEAKER_INDEX.wav, got none; rename them")
    return sorted(found, key=lambda each: (each.label, each.speaker, each.number))


def _files(path: Path) -> Iterator[Recording]:
    folder = path / "recordings" if (path / "recordings").is_dir() else path
    for file in sorted(folder.glob("*.wav")):
        if match := _NAME.fullmatch(file.name):
            yield Recording(match[1], match[2], int(match[3]), read_wav(file))


def _archived(archive: Path) -> Iterator[Recording]:
    try:
        with tarfile.open(archive) as files:
            for member in files:
                match = _NAME.fullmatch(Path(member.name).name)
                if match and member.isfile() and member.size <= _MAX_BYTES:
                    content = files.extractfile(member)
                    assert content is not None
                    samples = read_wav(io.BytesIO(content.read()), f"{archive}, {member.name}")
                    yield Recording(match[1], match[2], int(match[3]), samples)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{archive}: not a whole archive ({error}); pack it again") from None


# Synthesised words: two resonances that glide, over the pitch of a speaker.

_GLIDES = {  # of each digit: its parts, each from two resonances to two others, in Hz
    "0": [((300, 1700), (350, 1500)), ((500, 1000), (400, 800))],
    "1": [((350, 700), (700, 1200)), ((300, 1400), (300, 1300))],
    "2": [((300, 2200), (320, 1800)), ((320, 1000), (300, 800))],
    "3": [((450, 1300), (400, 1800)), ((300, 2300), (280, 2500))],
    "4": [((550, 850), (500, 800)), ((480, 1000), (450, 1300))],
    "5": [((750, 1200), (700, 1500)), ((500, 1900), (350, 2100))],
    "6": [((400, 2000), (390, 2100)), ((2500, 3400), (2600, 3500))],
    "7": [((550, 1800), (600, 1700)), ((500, 1400), (350, 1500))],
    "8": [((500, 2000), (350, 2300)), ((2000, 3000), (1800, 2800))],
    "9": [((300, 1500), (750, 1300)), ((650, 1500), (300, 1600))],
}
LABELS = tuple(_GLIDES)
SPEAKERS = ("ada", "bo", "cleo", "dan")


def synthesise_recordings(per_word: int, *, seed: int = 0) -> list[Recording]:
    """Returns recordings of ten words by four speakers, each as often as asked, like a very small data set of digits.

    Arguments:
        per_word: of each speaker and word; the first five are for tests
        seed: of the random differences between them
    """
    found = []
    for label in LABELS:
        for number, speaker in enumerate(SPEAKERS):
            for index in range(per_word):
                draw = np.random.default_rng([abs(seed), seed < 0, int(label), number, index])
                found.append(Recording(label, speaker, index, _say(label, 95 + 35 * number, draw)))
    return found


def _say(label: str, pitch: float, draw: np.random.Generator) -> np.ndarray:
    parts = [_part(glide, pitch, draw) for glide in _GLIDES[label]]
    sound = np.concatenate(parts)
    sound /= np.abs(sound).max() + 1e-9
    noise = 0.02 * draw.standard_normal(len(sound))
    return (draw.uniform(0.3, 0.9) * sound + noise).clip(-1, 1).astype(np.float32)


def _part(glide: tuple, pitch: float, draw: np.random.Generator) -> np.ndarray:
    (first, second), (third, fourth) = glide
    n = int(RATE * draw.uniform(0.10, 0.18))
    along, stretch = np.linspace(0, 1, n), draw.normal(1, 0.03)
    resonances = [stretch * (a + (b - a) * along) for a, b in ((first, third), (second, fourth))]
    phase = 2 * np.pi * np.cumsum(pitch * draw.normal(1, 0.03) * (1 - 0.1 * along)) / RATE
    sound = np.zeros(n)
    for harmonic in range(1, int(3800 / pitch)):
        frequency = harmonic * pitch
        strength = sum(1 / (1 + ((frequency - each) / 120) ** 2) for each in resonances)
        sound += strength * np.sin(harmonic * phase)
    return sound * np.hanning(n) ** 0.3
