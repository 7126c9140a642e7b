"""Finds free hours in a week of lessons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
FIRST_HOUR = 8
LAST_HOUR = 17


@dataclass(frozen=True, order=True)
class Lesson:
    """A subject in a room, from one hour to another."""

    day: str
    start: int
    end: int
    subject: str
    room: str

    def overlaps(self, other: Lesson) -> bool:
        return self.day == other.day and self.start < other.end and other.start < self.end


class Timetable:
    """Lessons without overlaps in a room."""

    def __init__(self) -> None:
        self.lessons: list[Lesson] = []

    def book(self, lesson: Lesson) -> None:
        for other in self.lessons:
            if other.room == lesson.room and other.overlaps(lesson):
                raise ValueError("room is taken")
        self.lessons.append(lesson)
        self.lessons.sort()

    def cancel(self, subject: str, day: str) -> int:
        kept = [item for item in self.lessons if (item.subject, item.day) != (subject, day)]
        removed = len(self.lessons) - len(kept)
        self.lessons = kept
        return removed

    def free_hours(self, room: str, day: str) -> list[int]:
        taken: set[int] = set()
        for lesson in self.lessons:
            if lesson.room == room and lesson.day == day:
                taken.update(range(lesson.start, lesson.end))
        return [hour for hour in range(FIRST_HOUR, LAST_HOUR) if hour not in taken]


def busiest_day(lessons: Iterable[Lesson]) -> str:
    hours = dict.fromkeys(DAYS, 0)
    for lesson in lessons:
        hours[lesson.day] += lesson.end - lesson.start
    return max(DAYS, key=lambda day: hours[day])
