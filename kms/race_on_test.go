//go:build race

package kms

const raceEnabled = true
