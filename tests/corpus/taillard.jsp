Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound
 2 2 840612802 398197754 5 5
Times
 3 2
 4 1
Machines
 1 2
 2 1
