"""The engines that Parley is compared with: a script that installs each, and a program for those that run in process."""
