package gateway

// RaceEnabled tells the tests outside the package of the race detector.
const RaceEnabled = raceEnabled
