************************************************************************
file with basedata            : a.bas
initial value random generator: 7
************************************************************************
projects                      :  1
jobs (incl. supersource/sink ):  4
horizon                       :  7
RESOURCES
  - renewable                 :  2   R
  - nonrenewable              :  0   N
  - doubly constrained        :  0   D
************************************************************************
PROJECT INFORMATION:
pronr.  #jobs rel.date duedate tardcost  MPM-Time
    1      2      0        5        2        5
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
    1     1     2     2     3
    2     2     1     4
    3     1     2     4     4
    4     1     0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2
------------------------------------------------------------------------
    1     1     0     0     0
    2     1     3     2     1
          2     5     1     0
    3     1     2     2     0
    4     1     0     0     0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  R 2
    3     1
************************************************************************
