#pragma once
int doubled(int x);
