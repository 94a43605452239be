// Package tune sets a Linux host up for a fast link, and back again. A [Plan]
// says what is, what would be and why; [Apply] writes down what was and then
// does it; [Revert] restores it.
//
// Values are only ever raised: what is better already stays. What the kernel or
// a driver refuses is told and the rest is done. In a network namespace only
// what belongs to the namespace is touched; governors and the kernel-wide
// sysctls are the machine's.
package tune
