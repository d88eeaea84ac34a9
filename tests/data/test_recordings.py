"""Recordings: WAV files of all widths, other rates, wrong files, directories and archives, synthesised words."""

import io
import struct
import tarfile
import wave

import numpy as np
import pytest

from omegamax.data.recordings import LABELS, RATE, SPEAKERS, read_recordings, read_wav, synthesise_recordings


def wav_bytes(samples, *, width=2, rate=RATE, channels=1):
    """Writes samples from −1 to 1 by hand, one at a time."""
    frames = b""
    for sample in np.asarray(samples).reshape(-1):
        if width == 1:
            frames += struct.pack("B", int(sample * 127) + 128)
        else:
            frames += int(sample * (2 ** (8 * width - 1) - 1)).to_bytes(width, "little", signed=True)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(frames)
    return file.getvalue()


WAVE = np.sin(2 * np.pi * 440 * np.arange(800) / RATE)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_all_widths(tmp_path, width):
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(0.5 * WAVE, width=width))
    found = read_wav(path)
    assert found.dtype == np.float32 and np.abs(found - 0.5 * WAVE).max() < 2.5 / 2 ** (8 * min(width, 3) - 1)


def test_channels_are_averaged(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(np.stack([WAVE, -0.5 * WAVE], 1), channels=2))
    assert np.abs(read_wav(path) - 0.25 * WAVE).max() < 1e-4


@pytest.mark.parametrize("rate", [16000, 44100, 6000])
def test_other_rates_keep_the_pitch(tmp_path, rate):
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(np.sin(2 * np.pi * 500 * np.arange(rate // 2) / rate), rate=rate))
    found = read_wav(path)
    assert len(found) == pytest.approx(RATE // 2, abs=1)
    spectrum = np.abs(np.fft.rfft(found))
    assert spectrum.argmax() * RATE / len(found) == pytest.approx(500, abs=3)


def test_wrong_files_are_named(tmp_path):
    path = tmp_path / "a.wav"
    for content in (b"", b"RIFF", b"no sound at all", wav_bytes(WAVE)[:20]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.wav: expected an uncompressed WAV file"):
            read_wav(path)
    path.write_bytes(wav_bytes([]))
    with pytest.raises(ValueError, match="expected some sound, got none"):
        read_wav(path)


def test_directories_and_archives_give_the_same(tmp_path):
    names = ["7_ada_0.wav", "7_ada_10.wav", "0_bo_2.wav"]
    folder = tmp_path / "set" / "recordings"
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        (folder / name).write_bytes(wav_bytes(WAVE[: 100 + number]))
    (folder / "notes.txt").write_text("no recording")
    (folder / "wrong.wav").write_bytes(b"not looked at: its name says nothing")
    found = read_recordings(tmp_path / "set")
    assert [(each.label, each.speaker, each.number, len(each.samples)) for each in found] == [
        ("0", "bo", 2, 102),
        ("7", "ada", 0, 100),
        ("7", "ada", 10, 101),
    ]
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / "recordings.tar.xz", "w:xz") as archive:
        archive.add(folder, "recordings")
    for mine, theirs in zip(read_recordings(packed), found, strict=True):
        assert mine[:3] == theirs[:3] and np.array_equal(mine.samples, theirs.samples)


def test_wrong_directories_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        read_recordings(tmp_path / "none")
    with pytest.raises(ValueError, match=r"expected WAV files named LABEL_SPEAKER_INDEX\.wav, got none"):
        read_recordings(tmp_path)
    (tmp_path / "recordings.tar.xz").write_bytes(b"broken")
    with pytest.raises(ValueError, match="not a whole archive"):
        read_recordings(tmp_path)


def test_synthesised_words():
    found = synthesise_recordings(2, seed=5)
    assert len(found) == 2 * len(LABELS) * len(SPEAKERS)
    for each in found:
        assert each.samples.dtype == np.float32 and 0.15 * RATE < len(each.samples) < 0.4 * RATE
        assert 0.2 < np.abs(each.samples).max() <= 1
    again = synthesise_recordings(2, seed=5)
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(found, again))
    assert not np.array_equal(found[0].samples[:500], found[1].samples[:500])
